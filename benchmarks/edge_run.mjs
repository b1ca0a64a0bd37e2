// What benchmarks/edge.py has a bundle do, under Node and in a browser.

/**
 * Embeds everything in a task and times single queries.
 *
 * @param module - address of the bundle's module
 * @param task - queries, documents, pictures, pairs, repeats
 * @param picture - reads a picture by its name
 */
export async function run(module, task, picture) {
  const start = performance.now();
  const used = globalThis.process?.cpuUsage();
  const { OmniEmbedEdge } = await import(module);
  const edge = await OmniEmbedEdge.load();
  await edge.embedQueries([task.queries[0]]);
  const cold = performance.now() - start;
  const more = globalThis.process?.cpuUsage(used);
  const coldCpu = more && (more.user + more.system) / 1000;

  const times = [];
  for (const query of task.queries.slice(0, task.repeats)) {
    const begin = performance.now();
    await edge.embedQueries([query]);
    times.push(performance.now() - begin);
  }
  const { vectors, routes } = await edge.embedQueries(task.queries);
  const forced = {};
  for (const { name } of edge.experts) {
    const own = await edge.embedQueries(task.queries.slice(0, task.forced), { expert: name });
    forced[name] = rows(own.vectors);
  }
  const documents = await edge.embedDocuments(task.documents);
  edge.index.documents.length = 0;
  edge.index.add(task.documents.map((text, at) => ({ id: String(at), text })), documents);
  const top = vectors.map((vector) => edge.index.nearest(vector, 10).map(([, { id }]) => Number(id)));

  const pictures = [];
  const seen = [];
  for (const name of task.pictures) {
    const content = await picture(name);
    const begin = performance.now();
    pictures.push(...(await edge.embedDocuments([content])));
    seen.push(performance.now() - begin);
  }
  const composed = [];
  for (const [name, text] of task.pairs) {
    composed.push(...(await edge.embedQueries([[await picture(name), text]])).vectors);
  }
  return {
    cold,
    coldCpu,
    times,
    seen,
    vectors: rows(vectors),
    experts: routes.map((route) => route.expert),
    forced,
    documents: rows(documents),
    top,
    pictures: rows(pictures),
    composed: rows(composed),
  };
}

function rows(vectors) {
  return vectors.map((vector) => Array.from(vector));
}

if (globalThis.process?.argv?.[2]) {
  const { readFileSync, writeFileSync } = await import("node:fs");
  const { pathToFileURL } = await import("node:url");
  const [bundle, taskFile, out] = process.argv.slice(2);
  const task = JSON.parse(readFileSync(taskFile, "utf8"));
  const module = pathToFileURL(`${bundle}/omniembed-edge.mjs`).href;
  const picture = async (name) => {
    const [width, height] = task.sizes[name];
    return { data: new Uint8Array(readFileSync(`${task.pixels}/${name}.rgb`)), width, height };
  };
  writeFileSync(out, JSON.stringify(await run(module, task, picture)));
}
