import { dot } from "./composed.ts";
import { type Files, orError, parseNpy } from "./files.ts";
import { EdgeError, type Document } from "./types.ts";

/** Documents and their vectors in memory, searched exactly. */
export class VectorIndex {
  readonly documents: Document[] = [];
  private readonly vectors: Float32Array[] = [];

  /** Reads the index that was exported with a bundle. */
  static async read(files: Files): Promise<VectorIndex> {
    const [lines, stored] = await Promise.all([
      files.text("index/documents.jsonl"),
      files.bytes("index/vectors.npy"),
    ]);
    const { data, shape } = orError("index/vectors.npy", () => parseNpy(stored));
    const width = shape[1]!;
    const index = new VectorIndex();
    index.add(
      orError("index/documents.jsonl", () =>
        lines.split("\n").filter(Boolean).map((line) => JSON.parse(line) as Document),
      ),
      Array.from({ length: shape[0]! }, (_, row) => data.subarray(row * width, (row + 1) * width)),
    );
    return index;
  }

  get size(): number {
    return this.documents.length;
  }

  /** Adds documents with vectors from `embedDocuments`. */
  add(documents: readonly Document[], vectors: readonly Float32Array[]): void {
    if (documents.length !== vectors.length) {
      throw new EdgeError(`${documents.length} documents, but ${vectors.length} vectors`);
    }
    this.documents.push(...documents);
    this.vectors.push(...vectors);
  }

  /** Finds the documents nearest to a vector; ties are ordered by id. */
  nearest(vector: Float32Array, topK: number, kinds?: readonly string[]): [number, Document][] {
    return this.documents
      .map((document, row): [number, Document] => [dot(this.vectors[row]!, vector), document])
      .filter(([, document]) => !kinds || kinds.includes(document.kind ?? "text"))
      .sort(([a, one], [b, other]) => b - a || ((one.id ?? "") < (other.id ?? "") ? -1 : 1))
      .slice(0, topK);
  }
}
