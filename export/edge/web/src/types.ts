/** Decoded pixels: three or four 8-bit samples each, row by row, upright. */
export interface Pixels {
  data: Uint8Array | Uint8ClampedArray;
  width: number;
  height: number;
  /** Samples a pixel; found from the length of `data` when omitted. */
  channels?: number;
}

/** A picture. File contents (`Blob`, `Uint8Array`) need `decode` outside browsers. */
export type Picture =
  | Pixels
  | Blob
  | Uint8Array
  | ImageBitmap
  | HTMLImageElement
  | HTMLCanvasElement
  | OffscreenCanvas;

/** A document to embed or to find. */
export interface Document {
  id?: string;
  kind?: "text" | "code" | "image" | "tool";
  title?: string;
  text?: string;
  uri?: string;
  language?: string;
  symbol?: string;
  start_line?: number;
  end_line?: number;
  metadata?: Record<string, unknown>;
  /** Path of a small picture, relative to the folder `index/` of the bundle, or a URL. */
  thumbnail?: string | null;
  /** Embedded in place of the text; not stored. */
  image?: Picture;
}

/** What can be embedded as a document. A string is always text. */
export type DocumentInput = string | Picture | Document;

/** A text, a picture, or a picture with the change wanted in it. */
export type QueryInput = string | Picture | readonly [Picture, string];

/** How a query was encoded. */
export interface Route {
  /** The expert that served it, or `"base"`. */
  expert: string;
  /** Probability that the expert beats the base; 1 where the gate was not asked. */
  confidence: number;
  /** That probability for every expert; empty when the gate was not asked. */
  scores: Record<string, number>;
  /** True when the gate was asked and kept to the base. */
  abstained: boolean;
  /** True when the query was longer than the model reads. */
  truncated: boolean;
  /** Kinds of documents that it is almost surely after; null for all. */
  kinds: string[] | null;
}

/** One search result. */
export interface Hit {
  /** Cosine similarity. */
  score: number;
  document: Document;
  route: Route;
}

/** An expert of the bundle. */
export interface Expert {
  name: string;
  purpose: string;
  kinds: string[];
  strength: number;
  composed: boolean;
}

/** How a picture becomes the vision tower's input. */
export interface Preprocessing {
  size: number;
  crop: number;
  resample: string;
}

/** `bundle.json`. */
export interface Description {
  format: number;
  name: string;
  fingerprint: string;
  precision: string;
  dim: number;
  gate_dim: number;
  max_tokens: number;
  special: { before: number[]; after: number[] };
  lora: { name: string; d_in: number; d_out: number }[];
  image: Preprocessing | null;
  gate: { classes: string[]; cover: number; added: Record<string, string[]> } | null;
  experts: Expert[];
  files: Record<string, number>;
  compressed: string[];
  documents: number;
}

/** An array with its shape. */
export interface Tensor<T> {
  data: T;
  shape: number[];
}

/** An input, an option or the bundle itself cannot be used; the message says what to do. */
export class EdgeError extends Error {
  override name = "EdgeError";
}
