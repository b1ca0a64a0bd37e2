import { Files, orError, parseTensors } from "./files.ts";
import { type Decode, isPicture } from "./pictures.ts";
import { QueryEncoder } from "./queries.ts";
import { bundledRuntime, type ModelFiles, openSession, readModel, type Runtime } from "./runtime.ts";
import { TextTower } from "./text.ts";
import { Tokenizer } from "./tokens.ts";
import {
  type Description,
  type Document,
  type DocumentInput,
  EdgeError,
  type Expert,
  type Hit,
  type Picture,
  type QueryInput,
  type Route,
} from "./types.ts";
import { VectorIndex } from "./vectors.ts";
import { VisionTower } from "./vision.ts";

const KINDS = ["text", "code", "image", "tool"];

export interface LoadOptions {
  /** Folder of the bundle, as a URL ending in `/`; where this module lies by default. */
  base?: string | URL;
  /** `onnxruntime-node` or another build of ONNX Runtime, in place of the bundled one. */
  runtime?: Runtime;
  /** Decodes picture files outside browsers. */
  decode?: Decode;
  /** Called as files arrive from a server, with the bytes that have come so far. */
  onProgress?: (bytes: number) => void;
}

export interface SearchOptions {
  topK?: number;
  /** Kinds of documents; `"auto"` keeps to `Route.kinds`. */
  kinds?: "auto" | "all" | readonly string[];
  /** `"auto"`, `"base"` or the name of an expert. */
  expert?: string;
}

/** A loaded bundle: embeds documents and queries, routes and searches. */
export class OmniEmbedEdge {
  private constructor(
    readonly description: Description,
    private readonly encoder: QueryEncoder,
    /** What `search` looks through: the documents of the bundle, and those that were added. */
    public index: VectorIndex,
  ) {}

  /** Loads a bundle. The vision tower is read when the first picture comes. */
  static async load(options: LoadOptions = {}): Promise<OmniEmbedEdge> {
    let arrived = 0;
    const files = new Files(new URL(options.base ?? "./", import.meta.url), (count) => {
      arrived += count;
      options.onProgress?.(arrived);
    });
    const description = await files.description();
    const read = (name: string) => files.listed(name, description);
    const model = (name: string) => readModel(name, read, Object.keys(description.files));
    // Sessions take longest, so they are made when all else is known to be whole.
    const [runtime, text, steering, tokenizer, index] = await Promise.all([
      options.runtime ?? bundledRuntime(files),
      model("text.onnx"),
      read("steering.safetensors").then((bytes) => orError("steering", () => parseTensors(bytes))),
      read("tokenizer.json").then((bytes) =>
        orError("tokenizer.json", () => new Tokenizer(new TextDecoder().decode(bytes), description)),
      ),
      description.documents ? VectorIndex.read(files) : new VectorIndex(),
    ]);
    const session = await openSession(runtime, text);
    const encoder = new QueryEncoder(
      description,
      tokenizer,
      orError("steering", () => new TextTower(runtime, session, description, steering)),
      () => openVision(runtime, model, description),
      steering,
      options.decode,
    );
    return new OmniEmbedEdge(description, encoder, index);
  }

  get experts(): readonly Expert[] {
    return this.description.experts;
  }

  /** Embeds documents with the base: unit vectors, in order. */
  embedDocuments(documents: readonly DocumentInput[]): Promise<Float32Array[]> {
    return this.encoder.documents(listOf("documents", documents).map(contentOf));
  }

  /** Embeds documents and adds them to the index that `search` looks through. */
  async add(documents: readonly (string | Document)[]): Promise<void> {
    const vectors = await this.embedDocuments(documents);
    const stored = documents.map((document, at): Document => {
      const { image, ...rest } = typeof document === "string" ? { text: document } : document;
      const kind = image ? "image" : "text";
      return { id: `added-${this.index.size + at}`, kind, ...rest };
    });
    this.index.add(stored, vectors);
  }

  /** Embeds queries, mixed freely: unit vectors and routes, in order. */
  embedQueries(
    queries: readonly QueryInput[],
    options: { expert?: string } = {},
  ): Promise<{ vectors: Float32Array[]; routes: Route[] }> {
    return this.encoder.queries(listOf("queries", queries), options.expert ?? "auto");
  }

  /** Tells how a query would be encoded. */
  async route(query: QueryInput): Promise<Route> {
    return (await this.embedQueries([query])).routes[0]!;
  }

  /** Finds documents in the index, best first. */
  async search(query: QueryInput, options: SearchOptions = {}): Promise<Hit[]> {
    const { topK = 10, kinds = "auto", expert = "auto" } = options;
    if (!Number.isInteger(topK) || topK < 1) {
      throw new EdgeError(`topK must be a whole number above 0, not ${JSON.stringify(topK)}`);
    }
    const wanted = parseKinds(kinds);
    const { vectors, routes } = await this.embedQueries([query], { expert });
    const route = routes[0]!;
    const likely = kinds === "auto" ? (route.kinds ?? undefined) : undefined;
    let found = this.index.nearest(vectors[0]!, topK, wanted ?? likely);
    // The index may hold few documents of the kinds guessed at: better all than too few.
    if (likely && found.length < topK) found = this.index.nearest(vectors[0]!, topK);
    return found.map(([score, document]) => ({ score, document, route }));
  }
}

function parseKinds(kinds: "auto" | "all" | readonly string[]): readonly string[] | undefined {
  if (kinds === "auto" || kinds === "all") return undefined;
  const unknown = Array.isArray(kinds) ? kinds.filter((kind) => !KINDS.includes(kind)) : [kinds];
  if (unknown.length || !kinds.length) {
    const known = ["auto", "all", `a list of ${KINDS.join(", ")}`].join(", ");
    throw new EdgeError(`unknown kinds ${JSON.stringify(kinds)}; known: ${known}`);
  }
  return kinds;
}

function listOf<T>(what: string, given: readonly T[]): readonly T[] {
  if (Array.isArray(given)) return given;
  throw new EdgeError(`${what} must be given as a list, not ${typeof given}`);
}

async function openVision(
  runtime: Runtime,
  model: (name: string) => Promise<ModelFiles>,
  { image }: Description,
): Promise<VisionTower> {
  if (!image) throw new EdgeError("this bundle reads text only; export it with pictures");
  const [trunk, head] = await Promise.all(
    ["image.onnx", "image_head.onnx"].map(async (name) => openSession(runtime, await model(name))),
  );
  return new VisionTower(runtime, trunk!, head!, image);
}

function contentOf(document: DocumentInput): string | Picture {
  if (typeof document === "string" || isPicture(document)) return document;
  if (document.image) return document.image;
  const { title = "", text = "" } = document;
  return title && !text.startsWith(title) ? `${title}\n${text}` : text;
}
