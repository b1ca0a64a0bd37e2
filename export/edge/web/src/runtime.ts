import * as bundled from "onnxruntime-web/wasm";
import type { Files } from "./files.ts";
import { EdgeError } from "./types.ts";

/** An array that goes into or comes out of a graph. */
export interface RuntimeTensor {
  readonly data: unknown;
  readonly dims: readonly number[];
}

/** A loaded graph. */
export interface RuntimeSession {
  run(feeds: Record<string, any>, fetches: string[]): Promise<Record<string, any>>;
}

/** What this module uses of ONNX Runtime: `onnxruntime-web` and `onnxruntime-node` both fit. */
export interface Runtime {
  Tensor: new (type: any, data: any, dims: readonly number[]) => RuntimeTensor;
  InferenceSession: {
    create(model: Uint8Array, options?: any): Promise<RuntimeSession>;
  };
}

const WASM = "ort-wasm-simd-threaded.wasm.gz";

/** Prepares the runtime that lies in the bundle. */
export async function bundledRuntime(files: Files): Promise<Runtime> {
  // One thread: more need a server that sends cross-origin isolation headers.
  bundled.env.wasm.numThreads = 1;
  bundled.env.logLevel = "error";
  bundled.env.wasm.wasmBinary ??= (await files.bytes(WASM)).buffer;
  return bundled as unknown as Runtime;
}

/** An ONNX file, and the files that hold its weights if it has any. */
export interface ModelFiles {
  name: string;
  model: Uint8Array;
  externalData: { path: string; data: Uint8Array }[];
}

/** Reads an ONNX file with its weights. */
export async function readModel(
  name: string,
  read: (name: string) => Promise<Uint8Array>,
  listed: Iterable<string>,
): Promise<ModelFiles> {
  const weights = [...listed].filter((file) => file.startsWith(`${name}.`));
  const [model, ...data] = await Promise.all([name, ...weights].map(read));
  return { name, model: model!, externalData: weights.map((path, at) => ({ path, data: data[at]! })) };
}

/** Makes a session of what was read. */
export async function openSession(
  runtime: Runtime,
  { name, model, externalData }: ModelFiles,
): Promise<RuntimeSession> {
  // Fusions beyond the basic ones cost a quarter of the start and win a millisecond a query.
  const options = { externalData, logSeverityLevel: 3, graphOptimizationLevel: "basic" };
  try {
    return await runtime.InferenceSession.create(model, options);
  } catch (error) {
    throw new EdgeError(`cannot read ${name}: ${(error as Error).message}`);
  }
}
