import type { AnyTensor, Floats } from "./files.ts";
import type { Runtime, RuntimeSession, RuntimeTensor } from "./runtime.ts";
import type { Tokens } from "./tokens.ts";
import type { Description } from "./types.ts";

/** Bank row that lets the gate choose. */
export const GATE = -1;

const GATE_INPUTS = ["pilots", "pilot_owners", "gate_center", "gate_experts", "gate_settings"];
const BUDGET = 512; // padded tokens a batch

type Feeds = Record<string, RuntimeTensor>;

/** What the text tower says of one text. */
export interface Encoded {
  vector: Float32Array;
  /** Bank row that served it; 0 is the base. */
  chosen: number;
  /** By bank row. */
  confidence: number[];
  /** What the gate saw. */
  state: Float32Array;
}

export interface EncodeOptions {
  /** Of the adapter bank; 0 is the base, GATE lets the gate choose. */
  row?: number;
  /** Strength of the adapter. */
  weight?: number;
  /** Pseudo-words of every text, of equal length. */
  prefix?: Float32Array[] | undefined;
}

/** The routed text graph. */
export class TextTower {
  private readonly bank: Feeds = {};
  private readonly base: Feeds = {};
  private readonly gate: Feeds = {};

  constructor(
    private readonly runtime: Runtime,
    private readonly session: RuntimeSession,
    private readonly description: Description,
    steering: Map<string, AnyTensor>,
  ) {
    for (const layer of description.lora) {
      for (const side of ["a", "b"] as const) {
        const name = `lora_${side}.${layer.name}`;
        const stored = steering.get(name) as Floats;
        this.bank[name] = this.floats(stored.data, stored.shape);
        // A bank of rank 0 is the base at no cost.
        const width = side === "a" ? layer.d_in : layer.d_out;
        this.base[name] = this.floats(new Float32Array(0), [1, 0, width]);
      }
    }
    for (const name of GATE_INPUTS) {
      const stored = steering.get(name);
      if (!stored) continue;
      this.gate[name] =
        stored.data instanceof Float32Array
          ? this.floats(stored.data, stored.shape)
          : this.integers(stored.data, stored.shape);
    }
  }

  /** Encodes texts; long work lets the page breathe between batches. */
  async encode(tokens: Tokens[], options: EncodeOptions = {}): Promise<Encoded[]> {
    const { row = 0, weight = 1, prefix } = options;
    const words = prefix?.[0] ? prefix[0].length / this.description.dim : 0;
    const steering = { ...(row === 0 ? this.base : this.bank), ...this.steer(row) };
    const result = new Array<Encoded>(tokens.length);
    const grouped = batches(tokens.map((one) => one.ids.length + words));
    for (const batch of grouped) {
      const n = batch.length;
      const feeds = {
        ...this.inputs(batch.map((at) => tokens[at]!)),
        prefix: this.prefix(batch.map((at) => prefix?.[at]), words),
        expert: this.integers(new BigInt64Array(n).fill(BigInt(row)), [n, 1]),
        weight: this.floats(new Float32Array(n).fill(weight), [n, 1]),
        ...steering,
      };
      const wanted = ["vector", "chosen", "gate_confidence", "gate_state"] as const;
      const output = await this.session.run(feeds, [...wanted]);
      batch.forEach((at, place) => {
        result[at] = {
          vector: rowOf(output["vector"].data as Float32Array, place, n),
          chosen: Number(output["chosen"].data[place]),
          confidence: [...rowOf(output["gate_confidence"].data as Float32Array, place, n)],
          state: rowOf(output["gate_state"].data as Float32Array, place, n),
        };
      });
      if (grouped.length > 1) await new Promise((resolve) => setTimeout(resolve));
    }
    return result;
  }

  private inputs(batch: Tokens[]): Feeds {
    const longest = Math.max(...batch.map((one) => one.ids.length));
    const ids = new BigInt64Array(batch.length * longest);
    const mask = new BigInt64Array(batch.length * longest);
    batch.forEach((one, place) =>
      one.ids.forEach((id, column) => {
        ids[place * longest + column] = BigInt(id);
        mask[place * longest + column] = 1n;
      }),
    );
    const shape = [batch.length, longest];
    return { input_ids: this.integers(ids, shape), attention_mask: this.integers(mask, shape) };
  }

  private prefix(batch: (Float32Array | undefined)[], words: number): RuntimeTensor {
    const size = words * this.description.dim;
    const data = new Float32Array(batch.length * size);
    batch.forEach((one, place) => one && data.set(one, place * size));
    return this.floats(data, [batch.length, words, this.description.dim]);
  }

  /** Gives the gate's arrays, or those of a gate that is never asked. */
  private steer(row: number): Feeds {
    if (row === GATE) return this.gate;
    const width = this.description.gate_dim;
    const experts = row === 0 ? 1 : this.description.experts.length + 1;
    const closed = Array.from({ length: experts }, () => [0, -1e4, 1]).flat();
    return {
      pilots: this.floats(new Float32Array(width), [1, width]),
      pilot_owners: this.integers(new BigInt64Array(1), [1]),
      gate_center: this.floats(new Float32Array(width), [width]),
      gate_experts: this.floats(Float32Array.from(closed), [experts, 3]),
      gate_settings: this.floats(Float32Array.of(1, 0.5, 1e-6), [3]),
    };
  }

  private floats(data: Float32Array, shape: number[]): RuntimeTensor {
    return new this.runtime.Tensor("float32", data, shape);
  }

  private integers(data: BigInt64Array, shape: number[]): RuntimeTensor {
    return new this.runtime.Tensor("int64", data, shape);
  }
}

function rowOf(data: Float32Array, row: number, rows: number): Float32Array {
  const width = data.length / rows;
  return data.slice(row * width, (row + 1) * width);
}

/** Groups rows of similar length, longest first, within the token budget. */
function batches(lengths: number[]): number[][] {
  const order = lengths.map((_, row) => row).sort((a, b) => lengths[b]! - lengths[a]! || a - b);
  const grouped: number[][] = [];
  for (const row of order) {
    const last = grouped[grouped.length - 1];
    if (last && lengths[last[0]!]! * (last.length + 1) <= BUDGET) last.push(row);
    else grouped.push([row]);
  }
  return grouped;
}
