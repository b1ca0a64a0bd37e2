import { toSquare } from "./resample.ts";
import type { Runtime, RuntimeSession } from "./runtime.ts";
import type { Pixels, Preprocessing } from "./types.ts";

/** What the vision tower says of a picture. */
export interface Seen {
  vector: Float32Array;
  features: Float32Array;
}

/** The vision trunk and head. */
export class VisionTower {
  constructor(
    private readonly runtime: Runtime,
    private readonly trunk: RuntimeSession,
    private readonly head: RuntimeSession,
    private readonly preprocessing: Preprocessing,
  ) {}

  async encode(picture: Pixels): Promise<Seen> {
    const side = this.preprocessing.size;
    const square = toSquare(picture, this.preprocessing);
    const pixels = new this.runtime.Tensor("uint8", square, [1, side, side, 3]);
    const { features, logits } = await this.trunk.run({ pixels }, ["features", "logits"]);
    const { vector } = await this.head.run({ features, logits }, ["vector"]);
    return {
      vector: Float32Array.from(vector.data as Float32Array),
      features: Float32Array.from(features.data as Float32Array),
    };
  }
}
