// What tests/test_edge_javascript.py has a node bundle do; prints JSON.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [bundle, file] = process.argv.slice(2);
const given = JSON.parse(readFileSync(file, "utf8"));
const base = pathToFileURL(`${bundle}/`).href;
const { OmniEmbedEdge, EdgeError, Tokenizer, toSquare } = await import(`${base}omniembed-edge.mjs`);

/** Says what an attempt throws, and whether it is the module's own error. */
async function refusal(attempt) {
  try {
    await attempt();
    return "nothing";
  } catch (error) {
    return `${error instanceof EdgeError ? "EdgeError" : error.constructor.name}: ${error.message}`;
  }
}

function pixels({ width, height, channels, data }) {
  return { width, height, channels, data: Buffer.from(data, "base64") };
}

const rows = (vectors) => vectors.map((vector) => Array.from(vector));

async function agree() {
  const edge = await OmniEmbedEdge.load({ decode: async () => pixels(given.picture) });
  const { vectors, routes } = await edge.embedQueries(given.texts);
  const picture = pixels(given.picture);
  const forced = {};
  for (const { name } of edge.experts) {
    forced[name] = rows((await edge.embedQueries(given.texts.slice(0, 3), { expert: name })).vectors);
  }
  const hits = [];
  for (const text of given.texts.slice(0, 6)) {
    hits.push((await edge.search(text, { topK: 5 })).map((hit) => hit.document.id));
  }
  return {
    vectors: rows(vectors),
    routes,
    forced,
    hits,
    documents: rows(await edge.embedDocuments([given.texts[0], picture, new Uint8Array(3)])),
    composed: rows((await edge.embedQueries([[picture, "as a photo"]])).vectors),
    refusals: {
      empty: await refusal(() => edge.embedQueries([" \n"])),
      unknown: await refusal(() => edge.embedQueries(["x"], { expert: "legal" })),
      pixels: await refusal(() => edge.embedDocuments([{ data: new Uint8Array(5), width: 2, height: 2 }])),
      list: await refusal(() => edge.embedDocuments("text")),
      kinds: await refusal(() => edge.search("x", { kinds: "nope" })),
      topK: await refusal(() => edge.search("x", { topK: 0 })),
    },
    added: await (async () => {
      await edge.add([{ text: "zebras graze on the savanna", id: "zebra" }]);
      return (await edge.search("animals with stripes", { topK: 1, kinds: "all" }))[0].document.id;
    })(),
  };
}

const { tokenizer, description } = given;
console.log(
  JSON.stringify({
    squares: (given.squares ?? []).map((one) => {
      return Buffer.from(toSquare(pixels(one), given.how)).toString("base64");
    }),
    ids: given.strings
      ? given.strings.map((text) => {
          globalThis.own ??= new Tokenizer(readFileSync(tokenizer, "utf8"), description);
          return globalThis.own.encode(text);
        })
      : [],
    agreement: given.texts ? await agree() : null,
    broken: given.broken
      ? await Promise.all(
          given.broken.map((folder) =>
            refusal(() => OmniEmbedEdge.load({ base: pathToFileURL(`${folder}/`).href })),
          ),
        )
      : [],
  }),
);
