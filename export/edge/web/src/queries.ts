import { ComposedParts, unit } from "./composed.ts";
import type { AnyTensor, Floats } from "./files.ts";
import { Kinds } from "./kinds.ts";
import { type Decode, toPixels } from "./pictures.ts";
import { type Encoded, GATE, type TextTower } from "./text.ts";
import type { Tokenizer, Tokens } from "./tokens.ts";
import { type Description, EdgeError, type Picture, type QueryInput, type Route } from "./types.ts";
import type { Seen, VisionTower } from "./vision.ts";

const BASE = "base";

type Result = [Float32Array, Route];

/** Documents by the base; queries by the base, a named expert or the gate's choice. */
export class QueryEncoder {
  private readonly names: string[];
  private readonly asked: Set<number>;
  private readonly kinds: Kinds | undefined;
  private vision: Promise<VisionTower> | undefined;

  constructor(
    private readonly description: Description,
    private readonly tokenizer: Tokenizer,
    private readonly text: TextTower,
    private readonly openVision: () => Promise<VisionTower>,
    private readonly steering: Map<string, AnyTensor>,
    private readonly decode: Decode | undefined,
  ) {
    this.names = [BASE, ...description.experts.map((one) => one.name)];
    if (description.gate) this.kinds = new Kinds(description.gate, steering);
    const owners = steering.get("pilot_owners")?.data as BigInt64Array | undefined;
    this.asked = new Set([...(owners ?? [])].map(Number).filter((row) => row > 0));
  }

  async documents(contents: (string | Picture)[]): Promise<Float32Array[]> {
    const vectors = new Array<Float32Array>(contents.length);
    const places = contents.flatMap((content, at) => (typeof content === "string" ? [at] : []));
    const tokens = places.map((at) => this.tokens("document", at, contents[at] as string));
    for (const [at, content] of contents.entries()) {
      if (typeof content !== "string") vectors[at] = (await this.see(content)).vector;
    }
    const encoded = await this.text.encode(tokens);
    places.forEach((at, place) => (vectors[at] = encoded[place]!.vector));
    return vectors;
  }

  async queries(
    queries: readonly QueryInput[],
    expert: string,
  ): Promise<{ vectors: Float32Array[]; routes: Route[] }> {
    if (expert !== "auto" && !this.names.includes(expert)) {
      const known = ["auto", ...this.names].join(", ");
      throw new EdgeError(`unknown expert ${JSON.stringify(expert)}; known: ${known}`);
    }
    const results = new Array<Result>(queries.length);
    const places = queries.flatMap((query, at) => (typeof query === "string" ? [at] : []));
    const tokens = places.map((at) => this.tokens("query", at, queries[at] as string));
    const found = await this.plain(tokens, expert);
    places.forEach((at, place) => (results[at] = found[place]!));
    for (const [at, query] of queries.entries()) {
      if (typeof query === "string") continue;
      results[at] = isPair(query)
        ? await this.composed(query[0], this.tokens("query", at, query[1]), expert)
        : [(await this.see(query)).vector, makeRoute()];
    }
    return { vectors: results.map(([vector]) => vector), routes: results.map(([, route]) => route) };
  }

  private async plain(tokens: Tokens[], expert: string): Promise<Result[]> {
    if (expert === "auto" && this.description.gate) {
      const encoded = await this.text.encode(tokens, { row: GATE });
      return encoded.map((one, at) => [one.vector, this.gated(one, tokens[at]!)]);
    }
    const asked = expert === "auto";
    const name = asked ? BASE : expert;
    const encoded = await this.forced(tokens, name);
    const route = { expert: name, confidence: asked ? 0 : 1, abstained: asked };
    return encoded.map(({ vector }, at) => {
      return [vector, makeRoute({ ...route, truncated: tokens[at]!.truncated })];
    });
  }

  private gated({ chosen, confidence, state }: Encoded, { truncated }: Tokens): Route {
    const asked = this.names.map((name, row) => [name, confidence[row]!] as const);
    return {
      expert: this.names[chosen]!,
      confidence: chosen ? confidence[chosen]! : Math.max(...confidence),
      scores: Object.fromEntries(asked.filter((_, row) => this.asked.has(row))),
      abstained: chosen === 0,
      truncated,
      kinds: this.kinds?.likely(state, this.names[chosen]!) ?? null,
    };
  }

  private async composed(picture: Picture, tokens: Tokens, expert: string): Promise<Result> {
    const able = this.description.experts.filter((one) => one.composed).map((one) => one.name);
    const name = expert === "auto" ? (able[able.length - 1] ?? BASE) : expert;
    const kinds = this.description.experts.find((one) => one.name === name)?.kinds ?? null;
    const route = makeRoute({ expert: name, truncated: tokens.truncated, kinds });
    const seen = await this.see(picture);
    if (!able.includes(name)) {
      const text = (await this.forced([tokens], name))[0]!.vector;
      return [unit(text.map((value, at) => value + seen.vector[at]!)), route];
    }
    const mark = `composed.${name}.`;
    const own = [...this.steering].filter(([key]) => key.startsWith(mark));
    const parts = new ComposedParts(
      new Map(own.map(([key, tensor]) => [key.slice(mark.length), tensor as Floats])),
    );
    const prefix = [parts.pseudoWords(seen.features, seen.vector)];
    const text = (await this.forced([tokens], name, prefix))[0]!.vector;
    return [parts.combine(text, seen.vector), route];
  }

  private forced(tokens: Tokens[], name: string, prefix?: Float32Array[]): Promise<Encoded[]> {
    const row = this.names.indexOf(name);
    const weight = row ? this.description.experts[row - 1]!.strength : 0;
    return this.text.encode(tokens, { row, weight, prefix });
  }

  private async see(picture: Picture): Promise<Seen> {
    this.vision ??= this.openVision();
    return (await this.vision).encode(await toPixels(picture, this.decode));
  }

  private tokens(what: string, at: number, text: string): Tokens {
    const tokens = this.tokenizer.encode(text);
    if (tokens.empty) {
      const start = JSON.stringify(text.slice(0, 40));
      throw new EdgeError(`${what} ${at} holds nothing to read: ${start}`);
    }
    return tokens;
  }
}

function makeRoute(fields: Partial<Route> = {}): Route {
  const none = { scores: {}, abstained: false, truncated: false, kinds: null };
  return { expert: BASE, confidence: 1, ...none, ...fields };
}

function isPair(query: QueryInput): query is readonly [Picture, string] {
  return Array.isArray(query);
}
