/**
 * Embed, route and search with an omniembed bundle, in a browser or under Node.
 *
 * @example
 * import { OmniEmbedEdge } from "./omniembed-edge.mjs";
 * const edge = await OmniEmbedEdge.load();
 * const hits = await edge.search("limit requests per second");
 */
export { OmniEmbedEdge, type LoadOptions, type SearchOptions } from "./engine.ts";
export type { Decode } from "./pictures.ts";
export { toSquare } from "./resample.ts";
export type { Runtime, RuntimeSession, RuntimeTensor } from "./runtime.ts";
export { Tokenizer, type Tokens } from "./tokens.ts";
export {
  EdgeError,
  type Description,
  type Document,
  type DocumentInput,
  type Expert,
  type Hit,
  type Picture,
  type Pixels,
  type Preprocessing,
  type QueryInput,
  type Route,
} from "./types.ts";
export { VectorIndex } from "./vectors.ts";
