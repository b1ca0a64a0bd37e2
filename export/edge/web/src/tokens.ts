import { Tokenizer as HFTokenizer } from "@huggingface/tokenizers";
import type { Description } from "./types.ts";

/** One text as token ids, special tokens included. */
export interface Tokens {
  ids: number[];
  empty: boolean;
  truncated: boolean;
}

const CHARACTERS_PER_TOKEN = 64;
const RARE_IDEOGRAPHS = /[\u{20000}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu;
const LONE_SURROGATES = /\p{Surrogate}/gu;

/** Reads texts for one model, as omniembed does. */
export class Tokenizer {
  private readonly tokenizer: HFTokenizer;
  private readonly splitIdeographs: boolean;
  private readonly room: number;

  constructor(
    content: string,
    private readonly description: Pick<Description, "max_tokens" | "special">,
  ) {
    const parsed = JSON.parse(content);
    this.tokenizer = new HFTokenizer(parsed, {});
    this.splitIdeographs = parsed.normalizer?.handle_chinese_chars === true;
    const { before, after } = description.special;
    this.room = description.max_tokens - before.length - after.length;
  }

  encode(text: string): Tokens {
    const most = this.description.max_tokens * CHARACTERS_PER_TOKEN;
    let read = text.trim().replace(LONE_SURROGATES, "?");
    const long = read.length > most && [...read].length > most;
    if (long) read = [...read].slice(0, most).join("");
    // The package sets blanks around ideographs of 16 bits only.
    if (this.splitIdeographs) read = read.replace(RARE_IDEOGRAPHS, " $& ");
    const { ids } = this.tokenizer.encode(read, { add_special_tokens: false });
    const { before, after } = this.description.special;
    return {
      ids: [...before, ...ids.slice(0, this.room), ...after],
      empty: ids.length === 0,
      truncated: long || ids.length > this.room,
    };
  }
}
