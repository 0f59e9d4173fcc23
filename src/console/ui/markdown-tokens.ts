/** Lexes Markdown that grows: tokens that cannot change any more are kept, only the tail is lexed again. Pure. */
import { Lexer, type Token, type Tokens } from "marked";

export interface LexedText {
  /** Blocks that more text cannot change. The same objects in each result, so that they are not drawn again. */
  readonly kept: readonly Token[];
  /** The source of `kept`. */
  readonly head: string;
  readonly tail: readonly Token[];
}

const OPTIONS = { gfm: true };

/** Returns the blocks of `text`; `before` is the result for an earlier, shorter text. */
export function lexGrowing(before: LexedText | undefined, text: string): LexedText {
  const canGrow = before !== undefined && text.startsWith(before.head);
  const head = canGrow ? before.head : "";
  const kept = canGrow ? before.kept : [];
  const blocks = blocksOf(text.slice(head.length));
  const open = openFrom(blocks);
  const done = blocks.slice(0, open);
  if (done.length === 0) return { kept, head, tail: blocks };
  return {
    kept: [...kept, ...done],
    head: head + done.map(({ raw }) => raw).join(""),
    tail: blocks.slice(open),
  };
}

/**
 * Returns the index of the first block that more text may change: of the last two. The last one may grow, and what it turns
 * out to be may continue the one before, as `1.` does a list.
 */
function openFrom(blocks: readonly Token[]): number {
  let left = 2;
  let index = blocks.length;
  while (index > 0 && left > 0) {
    index--;
    if (blocks[index]?.type !== "space") left--;
  }
  return index;
}

function blocksOf(text: string): Token[] {
  return new Lexer(OPTIONS).blockTokens(text, []);
}

/** Returns the inline tokens of a block's text. */
export function inlineTokens(text: string): Token[] {
  return new Lexer(OPTIONS).inlineTokens(text, []);
}

/** Addresses that a link may lead to. Everything else is shown as it was written. */
export function isSafeAddress(href: string): boolean {
  return /^(?:https?:\/\/|mailto:)/i.test(href);
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#39;": "'",
};

/** Returns text as it was meant: marked escapes what would be HTML, and no HTML is made here. */
export function plainText(text: string): string {
  return text.replace(/&(?:amp|lt|gt|quot|#39);/g, (entity) => ENTITIES[entity] ?? entity);
}

export type { Token, Tokens };
