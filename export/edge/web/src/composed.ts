import type { Floats } from "./files.ts";
import { EdgeError } from "./types.ts";

/** Inner product. */
export function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += a[at]! * b[at]!;
  return sum;
}

/** Scales a vector to unit norm. */
export function unit(vector: Float32Array): Float32Array {
  const norm = Math.max(Math.sqrt(dot(vector, vector)), 1e-12);
  return vector.map((value) => value / norm);
}

/**
 * What a composed expert does beside its adapter: a picture becomes pseudo-words for the text
 * tower, and its own vector joins afterwards with a weight that the query decides.
 */
export class ComposedParts {
  constructor(private readonly tensors: Map<string, Floats>) {}

  /** Turns a picture into pseudo-words, laid end to end. */
  pseudoWords(features: Float32Array, picture: Float32Array): Float32Array {
    const mean = features.reduce((sum, value) => sum + value, 0) / features.length;
    const variance =
      features.reduce((sum, value) => sum + (value - mean) ** 2, 0) / features.length;
    const deviation = Math.sqrt(variance + 1e-5);
    const weight = this.get("pseudo_words.norm.weight");
    const bias = this.get("pseudo_words.norm.bias");
    const normed = features.map((v, at) => ((v - mean) / deviation) * weight[at]! + bias[at]!);
    const scale = Math.sqrt(picture.length);
    const input = concat(normed, this.freed(picture).map((value) => value * scale));
    return this.linear("pseudo_words.outer", this.linear("pseudo_words.inner", input).map(gelu));
  }

  /** Joins what the text tower says with the picture's own vector. */
  combine(query: Float32Array, picture: Float32Array): Float32Array {
    const scale = Math.sqrt(query.length);
    const freed = this.freed(picture);
    const input = concat(query, freed).map((value) => value * scale);
    const inner = this.linear("correction.inner", input).map(gelu);
    const correction = this.linear("correction.outer", inner);
    const raw = this.linear("residual.weight", query.map((value) => value * scale))[0]!;
    const share = 1 / (1 + Math.exp(-raw));
    const weight = share - this.get("residual.away")[0]! * (1 - share) ** 2;
    return unit(query.map((value, at) => value + correction[at]! + weight * freed[at]!));
  }

  /** Takes out the direction that all pictures share. */
  private freed(picture: Float32Array): Float32Array {
    const direction = this.get("direction");
    const along = dot(picture, direction);
    return unit(picture.map((value, at) => value - along * direction[at]!));
  }

  private linear(name: string, input: Float32Array): Float32Array {
    const weight = this.get(`${name}.weight`);
    return this.get(`${name}.bias`).map((bias, row) => {
      const start = row * input.length;
      return bias + dot(weight.subarray(start, start + input.length), input);
    });
  }

  private get(name: string): Float32Array {
    const tensor = this.tensors.get(name);
    if (!tensor) throw new EdgeError(`the bundle lacks ${name}; export it again`);
    return tensor.data;
  }
}

function concat(a: Float32Array, b: Float32Array): Float32Array {
  const result = new Float32Array(a.length + b.length);
  result.set(a);
  result.set(b, a.length);
  return result;
}

function gelu(x: number): number {
  return 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
}
