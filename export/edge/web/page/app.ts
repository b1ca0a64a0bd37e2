import type { Document, Hit, OmniEmbedEdge, QueryInput, Route } from "../src/index.ts";

const EXAMPLES = [
  "why are there two high tides a day?",
  "limit the number of requests per second",
  "a cat looking into the camera",
  "when does the next bus leave?",
];
const SNIPPET = 160;

function find<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

/** Makes an element with text, never with markup: documents are not to be trusted. */
function make(tag: string, className: string, text = ""): HTMLElement {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

const query = find<HTMLInputElement>("query");
const picture = find<HTMLInputElement>("picture");
const expert = find<HTMLSelectElement>("expert");
const status = find("status");

let edge: OmniEmbedEdge;
let chosen: File | undefined;
let running = 0;

async function load(): Promise<void> {
  const module = "./omniembed-edge.mjs";
  const own = (await import(module)) as typeof import("../src/index.ts");
  const bar = find<HTMLProgressElement>("progress");
  const start = performance.now();
  edge = await own.OmniEmbedEdge.load({
    onProgress: (bytes) => {
      bar.removeAttribute("value");
      status.textContent = `Loading the model: ${(bytes / 1e6).toFixed(1)} MB`;
    },
  });
  bar.hidden = true;
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  status.textContent = `Ready after ${seconds} s: ${edge.experts.length} experts, on this machine.`;
  for (const name of ["auto", "base", ...edge.experts.map((one) => one.name)]) {
    const label = name === "auto" ? "the gate chooses" : name;
    expert.append(new Option(label, name));
  }
  for (const id of ["go", "add-texts", "add-pictures"]) {
    find<HTMLButtonElement>(id).disabled = false;
  }
  if (!edge.description.image) {
    for (const id of ["drop", "add-pictures"]) find(id).closest("label")!.hidden = true;
  }
  showCount();
}

async function search(): Promise<void> {
  const text = query.value.trim();
  if (!edge || (!text && !chosen)) return;
  const asked: QueryInput = chosen ? (text ? [chosen, text] : chosen) : text;
  const turn = ++running;
  status.textContent = "Searching…";
  await attempt(async () => {
    const start = performance.now();
    const hits = await edge.search(asked, { expert: expert.value });
    if (turn !== running) return; // a later search has begun
    const time = Math.round(performance.now() - start);
    status.textContent = `${hits.length} of ${edge.index.size} documents, ${time} ms.`;
    if (hits[0]) showRoute(hits[0].route);
    showHits(hits);
  });
}

function showHits(hits: Hit[]): void {
  find("nothing").hidden = hits.length > 0;
  find("results").replaceChildren(
    ...hits.map(({ score, document: found }) => {
      const item = make("li", "");
      if (found.thumbnail) {
        const image = document.createElement("img");
        image.src = found.thumbnail.includes(":") ? found.thumbnail : `index/${found.thumbnail}`;
        image.alt = titleOf(found);
        item.append(image);
      }
      const what = make("div", "what");
      const kind = found.kind ?? "text";
      const head = make("div", "title");
      head.append(make("span", `kind ${kind}`, kind), titleOf(found));
      const text = (found.text ?? "").replace(/\s+/g, " ").trim();
      what.append(head, make("div", "snippet", cut(text, SNIPPET)));
      item.append(what, make("span", "score", score.toFixed(3)));
      return item;
    }),
  );
}

function showRoute(route: Route): void {
  const percent = (value: number) => `${Math.round(value * 100)} %`;
  const scores = Object.entries(route.scores);
  find("reason").textContent =
    scores.length === 0
      ? `Served by ${route.expert}; the gate was not asked.`
      : route.abstained
        ? "No expert is likely enough to beat the base, so the base serves."
        : `Served by ${route.expert}, with a confidence of ${percent(route.confidence)}.`;
  find("scores").replaceChildren(
    ...scores
      .sort(([, a], [, b]) => b - a)
      .map(([name, value]) => {
        const row = make("li", name === route.expert ? "chosen" : "");
        const bar = make("span", "bar");
        const fill = document.createElement("i");
        fill.style.width = `${value * 100}%`;
        bar.append(fill);
        row.append(make("span", "", name), bar, make("span", "value", percent(value)));
        return row;
      }),
  );
}

function titleOf(found: Document): string {
  const place = (found.uri ?? "").split("/").pop() ?? "";
  return found.title || place || cut(found.text ?? "", 60) || found.id || "";
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

function showCount(): void {
  find("count").textContent = `${edge.index.size} documents can be found.`;
}

function choose(file: File | undefined): void {
  chosen = file;
  find("clear").hidden = !file;
  find("picture-name").textContent = file ? file.name : "Add a picture, or drop one here";
  if (file) void search();
}

async function add(documents: Document[]): Promise<void> {
  if (documents.length === 0) return;
  await attempt(async () => {
    for (const [at, document] of documents.entries()) {
      status.textContent = `Embedding ${at + 1} of ${documents.length}…`;
      await new Promise((resolve) => setTimeout(resolve)); // let it be painted
      await edge.add([document]);
    }
    status.textContent = `Added ${documents.length}.`;
  });
  showCount();
}

async function attempt(work: () => Promise<void>): Promise<void> {
  status.classList.remove("error");
  try {
    await work();
  } catch (error) {
    status.classList.add("error");
    status.textContent = (error as Error).message;
  }
}

find("search").addEventListener("submit", (event) => {
  event.preventDefault();
  void search();
});
expert.addEventListener("change", () => void search());
picture.addEventListener("change", () => choose(picture.files?.[0]));
find("clear").addEventListener("click", () => {
  picture.value = "";
  choose(undefined);
});
const drop = find("drop");
drop.addEventListener("dragover", (event) => {
  event.preventDefault();
  drop.classList.add("over");
});
drop.addEventListener("dragleave", () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  choose(event.dataTransfer?.files[0]);
});
find("add").addEventListener("submit", (event) => {
  event.preventDefault();
  const texts = find<HTMLTextAreaElement>("texts");
  const lines = texts.value.split("\n").filter((line) => line.trim());
  void add(lines.map((text) => ({ text }))).then(() => (texts.value = ""));
});
find<HTMLInputElement>("add-pictures").addEventListener("change", (event) => {
  const files = [...((event.target as HTMLInputElement).files ?? [])];
  void add(
    files.map((image) => ({ image, uri: image.name, thumbnail: URL.createObjectURL(image) })),
  );
});
for (const text of EXAMPLES) {
  const button = make("button", "", text) as HTMLButtonElement;
  button.type = "button";
  button.addEventListener("click", () => {
    query.value = text;
    void search();
  });
  find("examples").append(button);
}
void attempt(load);
