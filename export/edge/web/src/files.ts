import { EdgeError, type Description, type Tensor } from "./types.ts";

export type Floats = Tensor<Float32Array>;
export type AnyTensor = Tensor<Float32Array> | Tensor<BigInt64Array>;

/** Reads the files of a bundle, over HTTP or from disk. */
export class Files {
  /**
   * @param base - folder of the bundle
   * @param onBytes - called with the number of bytes of every piece that arrives
   */
  constructor(
    readonly base: URL,
    private readonly onBytes: (count: number) => void = () => {},
  ) {}

  /** Reads `bundle.json`. */
  async description(): Promise<Description> {
    const text = await this.text("bundle.json");
    const content = orError("bundle.json", () => JSON.parse(text) as Description | null);
    if (content?.format !== 1) {
      throw new EdgeError(`${this.base} has bundle format ${content?.format}; this module reads 1`);
    }
    if (!content.files || !content.experts || !content.lora || !content.special || !content.compressed) {
      throw new EdgeError(`bundle.json in ${this.base} is incomplete; export the bundle again`);
    }
    return content;
  }

  /** Reads a file that `bundle.json` lists, and checks that it is whole. */
  async listed(name: string, { files, compressed }: Description): Promise<Uint8Array<ArrayBuffer>> {
    const data = await this.bytes(compressed.includes(name) ? `${name}.gz` : name);
    if (data.length !== files[name]) {
      const found = `${name} has ${data.length} bytes, not ${files[name]}`;
      throw new EdgeError(`${found}; copy the bundle again, whole`);
    }
    return data;
  }

  /** Reads a text file. */
  async text(name: string): Promise<string> {
    return new TextDecoder().decode(await this.bytes(name));
  }

  /** Reads a file, unpacked when it is gzip data. */
  async bytes(name: string): Promise<Uint8Array<ArrayBuffer>> {
    const url = new URL(name, this.base);
    const data = url.protocol === "file:" ? await fromDisk(url) : await this.fromServer(url);
    // A server may have unpacked a .gz file on its way, so that the content decides.
    return data[0] === 0x1f && data[1] === 0x8b ? gunzip(name, data) : data;
  }

  private async fromServer(url: URL): Promise<Uint8Array<ArrayBuffer>> {
    const response = await fetch(url);
    if (!response.ok || !response.body) {
      throw new EdgeError(`cannot read ${url}: ${response.status} ${response.statusText}`);
    }
    const pieces: BlobPart[] = [];
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      pieces.push(value);
      this.onBytes(value.length);
    }
    return new Uint8Array(await new Blob(pieces).arrayBuffer());
  }
}

async function fromDisk(url: URL): Promise<Uint8Array<ArrayBuffer>> {
  const name = "node:fs/promises"; // a variable, so that bundlers for browsers leave it alone
  const { readFile } = (await import(name)) as {
    readFile(path: URL): Promise<Uint8Array<ArrayBuffer>>;
  };
  try {
    return new Uint8Array(await readFile(url));
  } catch (error) {
    throw new EdgeError(`cannot read ${url}: ${(error as Error).message}`);
  }
}

async function gunzip(
  name: string,
  data: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array<ArrayBuffer>> {
  try {
    const unpacked = new Blob([data]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(unpacked).arrayBuffer());
  } catch (error) {
    throw broken(name, error);
  }
}

function broken(name: string, error: unknown): EdgeError {
  return new EdgeError(`${name} is broken: ${(error as Error).message}; copy the bundle again`);
}

/** Reads something of a file; whatever is thrown names the file. */
export function orError<T>(name: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof EdgeError ? error : broken(name, error);
  }
}

interface Entry {
  dtype: string;
  shape: number[];
  data_offsets: [number, number];
}

/** Reads a safetensors file; half precision comes back as single precision. */
export function parseTensors(bytes: Uint8Array<ArrayBuffer>): Map<string, AnyTensor> {
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  const tensors = new Map<string, AnyTensor>();
  for (const [name, entry] of Object.entries(header as Record<string, Entry>)) {
    if (name === "__metadata__") continue;
    const [start, end] = entry.data_offsets;
    if (!(0 <= start && start <= end && end <= bytes.length - 8 - length)) {
      throw new EdgeError(`tensor ${name} lies outside the file; copy the bundle again`);
    }
    const data = bytes.slice(8 + length + start, 8 + length + end).buffer; // aligned
    const shape = entry.shape;
    if (entry.dtype === "F32") tensors.set(name, { data: new Float32Array(data), shape });
    else if (entry.dtype === "I64") tensors.set(name, { data: new BigInt64Array(data), shape });
    else if (entry.dtype === "F16") tensors.set(name, { data: widen(new Uint16Array(data)), shape });
    else throw new EdgeError(`tensor ${name} is ${entry.dtype}; export the bundle again`);
  }
  return tensors;
}

function widen(halves: Uint16Array): Float32Array {
  const result = new Float32Array(halves.length);
  for (let at = 0; at < halves.length; at++) {
    const half = halves[at]!;
    const exponent = (half >> 10) & 31;
    const fraction = half & 1023;
    const size = exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
    result[at] = half & 0x8000 ? -size : size;
  }
  return result;
}

/** Reads a float32 matrix in NumPy's format. */
export function parseNpy(bytes: Uint8Array<ArrayBuffer>): Floats {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const wide = bytes[6] !== 1;
  const start = wide ? 12 : 10;
  const length = wide ? view.getUint32(8, true) : view.getUint16(8, true);
  const header = new TextDecoder("latin1").decode(bytes.subarray(start, start + length));
  const shape = /'shape': \(([^)]*)\)/.exec(header)?.[1]?.match(/\d+/g)?.map(Number);
  if (!header.includes("'<f4'") || !header.includes("False") || shape?.length !== 2) {
    throw new EdgeError(`vectors must be a float32 matrix in row order, not ${header.trim()}`);
  }
  return { data: new Float32Array(bytes.slice(start + length).buffer), shape };
}
