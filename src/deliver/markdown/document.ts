/** Markdown after reading: plain words, and what stands over which of them. Any stretch of it renders on its own. */

/** In the order in which they nest, the outermost first. */
export const MARKS = ["bold", "italic", "strike", "code"] as const;
export type Mark = (typeof MARKS)[number];

/** One link of a text; runs of the same link share the object. */
export interface Link {
  /** http, https or mailto. */
  readonly href: string;
  /** True: the words are the address, which need not be told twice. */
  isBare: boolean;
  /** Where its words end. */
  end: number;
}

/** A stretch of the text under the same marks. */
export interface Run {
  readonly start: number;
  readonly end: number;
  readonly marks: readonly Mark[];
  readonly link?: Link;
  /** What stands between two cells of a table. */
  readonly isGap?: boolean;
}

export interface Container {
  readonly kind: "quote" | "bullets" | "numbers" | "item";
  readonly id: number;
  /** Of an item in a numbered list. */
  readonly number?: number;
  /** Of an item: the index of its first block. */
  readonly firstBlock?: number;
}

export interface Table {
  /** Columns of a terminal that each column of the table takes. */
  readonly widths: number[];
}

export interface Block {
  readonly kind: "paragraph" | "heading" | "code" | "rule" | "row";
  readonly start: number;
  readonly end: number;
  /** What it stands in, the outermost first. */
  readonly containers: readonly Container[];
  /** In a list whose items stand close together. */
  readonly isTight: boolean;
  /** Of a heading: 1 to 6. */
  readonly level?: number;
  /** Of code; may be empty. */
  readonly language?: string;
  /** Of a row. */
  readonly table?: Table;
  readonly isHeader?: boolean;
}

export interface MarkdownDocument {
  /** The words alone, blocks apart by line feeds. */
  readonly text: string;
  /** In order, each with a part of the text of its own. */
  readonly blocks: readonly Block[];
  /** In order; code and rules have none. */
  readonly runs: readonly Run[];
  /** True: markup had hidden a secret, so that there is only the redacted text. */
  readonly isRedacted?: boolean;
}

/** A run as far as it lies in a slice. */
export interface Words {
  readonly text: string;
  readonly marks: readonly Mark[];
  readonly link?: Link;
  /** The link ends here: where it leads is told behind it. */
  readonly endsLink: boolean;
  readonly isGap: boolean;
}

/** A block as far as it lies in a slice. */
export interface Piece {
  readonly block: Block;
  readonly index: number;
  /** The whole text of the piece. */
  readonly text: string;
  /** Empty for code and rules. */
  readonly words: readonly Words[];
  /** False: the beginning of the block is in an earlier slice. */
  readonly isStart: boolean;
}

/** What lies between two places of the text. Costs no more than the slice is long. */
export function slice({ text, blocks, runs }: MarkdownDocument, from: number, to: number): readonly Piece[] {
  const pieces: Piece[] = [];
  for (let index = firstEndingAfter(blocks, from); index < blocks.length; index += 1) {
    const block = blocks[index];
    if (!block || block.start >= to) break;
    const start = Math.max(block.start, from);
    const end = Math.min(block.end, to);
    const words: Words[] = [];
    for (let at = firstEndingAfter(runs, start); at < runs.length; at += 1) {
      const run = runs[at];
      if (!run || run.start >= end) break;
      const stop = Math.min(run.end, end);
      words.push({
        text: text.slice(Math.max(run.start, start), stop),
        marks: run.marks,
        ...(run.link ? { link: run.link } : {}),
        endsLink: run.link?.end === stop,
        isGap: run.isGap === true,
      });
    }
    pieces.push({ block, index, text: text.slice(start, end), words, isStart: start === block.start });
  }
  return pieces;
}

/** A document of nothing but words. */
export function literalDocument(text: string): MarkdownDocument {
  const range = { start: 0, end: text.length };
  return {
    text,
    blocks: [{ kind: "paragraph", ...range, containers: [], isTight: true }],
    runs: [{ ...range, marks: [] }],
  };
}

/** The words of a piece where nothing can be marked: where a link leads is told behind it. */
export function plainWords({ text, link, endsLink }: Words): string {
  return link && endsLink && !link.isBare ? `${text} (${link.href})` : text;
}

/** In ranges that lie in order and apart. */
export function firstEndingAfter(ranges: readonly { readonly end: number }[], at: number): number {
  let low = 0;
  let high = ranges.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ranges[middle]?.end ?? 0) <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}
