import type { AnyTensor, Floats } from "./files.ts";
import { type Description, EdgeError } from "./types.ts";

const UNKNOWN = "unknown";

/** Tells the kinds of documents that a query is after, from the state that the gate sees. */
export class Kinds {
  private readonly center: Float32Array;
  private readonly weights: Floats;

  constructor(
    private readonly gate: NonNullable<Description["gate"]>,
    steering: Map<string, AnyTensor>,
  ) {
    this.center = (steering.get("gate_center") as Floats).data;
    const weights = steering.get("kinds") as Floats | undefined;
    if (gate.classes.length && weights?.shape[0] !== gate.classes.length) {
      throw new EdgeError("steering.safetensors lacks kinds; copy the bundle again, whole");
    }
    this.weights = weights ?? { data: new Float32Array(0), shape: [0, this.center.length + 1] };
  }

  /** The fewest kinds that are almost surely enough; null for all. */
  likely(state: Float32Array, expert: string): string[] | null {
    const { classes, cover, added } = this.gate;
    if (!classes.length) return null;
    const own = state.map((value, at) => value - this.center[at]!);
    const norm = Math.max(Math.hypot(...own), 1e-12);
    const width = own.length + 1;
    const logits = classes.map((_, row) => {
      const weights = this.weights.data.subarray(row * width, (row + 1) * width);
      return own.reduce((sum, value, at) => sum + (value / norm) * weights[at]!, weights[width - 1]!);
    });
    const peak = Math.max(...logits);
    const mass = logits.map((logit) => Math.exp(logit - peak));
    const total = mass.reduce((sum, value) => sum + value, 0);
    const order = classes.map((_, row) => row).sort((a, b) => mass[b]! - mass[a]! || a - b);
    const kinds: string[] = [];
    let sum = 0;
    for (const row of order) {
      kinds.push(classes[row]!);
      sum += mass[row]!;
      if (sum / total >= cover) break;
    }
    if (kinds.includes(UNKNOWN) || kinds.length >= classes.length - 1) return null;
    return [...new Set([...kinds, ...(added[expert] ?? [])])].sort();
  }
}
