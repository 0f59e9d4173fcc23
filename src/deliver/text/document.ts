/** Parsed Markdown: plain text with marked ranges. Any slice of it renders on its own. */
import { eastAsianWidth } from "get-east-asian-width";

/** In nesting order, the outermost first. */
export const MARKS = ["bold", "italic", "strike", "code"] as const;
export type Mark = (typeof MARKS)[number];

/** One link of a text; runs of the same link share the object. */
export interface Link {
  /** http, https or mailto. */
  readonly href: string;
  /** Whether the text is the address itself, which need not be repeated. */
  isBare: boolean;
  /** End of its text. */
  end: number;
}

/** A range of the text with the same marks. */
export interface Run {
  readonly start: number;
  readonly end: number;
  readonly marks: readonly Mark[];
  readonly link?: Link;
  /** Whether this is the gap between two table cells. */
  readonly isGap?: boolean;
  /** Whether it is text from outside, in which no platform may see markup. */
  readonly isLiteral?: boolean;
}

export interface Container {
  readonly kind: "quote" | "bullets" | "numbers" | "item";
  readonly id: number;
  /** Number of an item in a numbered list. */
  readonly number?: number;
  /** Index of the first block of an item. */
  readonly firstBlock?: number;
}

export interface Table {
  /** Width of each column in terminal cells. */
  readonly widths: number[];
}

export interface Block {
  readonly kind: "paragraph" | "heading" | "code" | "rule" | "row";
  readonly start: number;
  readonly end: number;
  /** The containers around the block, the outermost first. */
  readonly containers: readonly Container[];
  /** Whether the block is in a list without blank lines between its items. */
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
  /** The plain text; line feeds separate blocks. */
  readonly text: string;
  /** In order; each block has its own range of the text. */
  readonly blocks: readonly Block[];
  /** In order; code blocks and rules have no runs. */
  readonly runs: readonly Run[];
  /** Whether markup hid a secret. Then the document is the redacted text without marks. */
  readonly isRedacted?: boolean;
}

/** The part of a run inside a slice. */
export interface Words {
  readonly text: string;
  readonly marks: readonly Mark[];
  readonly link?: Link;
  /** Whether the link ends here; its address then follows the text. */
  readonly endsLink: boolean;
  readonly isGap: boolean;
  readonly isLiteral?: boolean;
}

/** The part of a block inside a slice. */
export interface Piece {
  readonly block: Block;
  readonly index: number;
  /** The whole text of the piece. */
  readonly text: string;
  /** Empty for code blocks and rules. */
  readonly words: readonly Words[];
  /** Whether the block begins in this slice. */
  readonly isStart: boolean;
}

/** Returns the blocks between two offsets, in time proportional to the slice. */
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
        ...(run.isLiteral ? { isLiteral: true } : {}),
      });
    }
    pieces.push({ block, index, text: text.slice(start, end), words, isStart: start === block.start });
  }
  return pieces;
}

/** Returns a document without marks. `isLiteral`: the text comes from outside. */
export function literalDocument(text: string, isLiteral = false): MarkdownDocument {
  const range = { start: 0, end: text.length };
  return {
    text,
    blocks: [{ kind: "paragraph", ...range, containers: [], isTight: true }],
    runs: [{ ...range, marks: [], ...(isLiteral ? { isLiteral } : {}) }],
  };
}

/** Returns the text without marks; the address of a link follows its text in parentheses. */
export function plainWords({ text, link, endsLink }: Words): string {
  return link && endsLink && !link.isBare ? `${text} (${link.href})` : text;
}

/** Returns the index of the first range that ends after `at`; ranges are in order and do not overlap. */
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

/** Returns the width in terminal cells, which aligns table columns in a monospaced font. */
export function cellsOf(text: string): number {
  let cells = 0;
  for (const character of text) cells += eastAsianWidth(character.codePointAt(0) ?? 0);
  return cells;
}

/** Wider tables wrap on a phone, so their rows become lines. */
const MAX_TABLE_CELLS = 60;

/** How blocks look on a platform that has only text. */
export interface LayoutStyle {
  readonly bullet: string;
  readonly rule: string;
  /** `sign`: each line begins with `> `; `span`: the platform marks the start and the end of a quote. */
  readonly quotes: "sign" | "span";
  /** Whether the platform shows code unchanged, so that narrow tables can be aligned in a code block. */
  readonly hasCode: boolean;
  /** Whether headings begin with `#`; otherwise they are bold. */
  readonly hasHeadings?: boolean;
}

/** The output in order. `raw` is generated text without marks; it may need escapes. */
export type LayoutItem =
  | { readonly kind: "raw"; readonly text: string }
  | { readonly kind: "words"; readonly words: Words }
  | { readonly kind: "code"; readonly text: string; readonly language: string }
  | { readonly kind: "quote-open" }
  | { readonly kind: "quote-close" };

/** Lays out blocks as lines of text: list markers, quotes, tables as columns or lines, blank lines between blocks. */
export function layOut(pieces: readonly Piece[], style: LayoutStyle): readonly LayoutItem[] {
  const items: LayoutItem[] = [];
  const raw = (text: string) => {
    if (text !== "") items.push({ kind: "raw", text });
  };
  let before: Piece | undefined;
  for (let at = 0; at < pieces.length; at += 1) {
    const piece = pieces[at];
    if (!piece) break;
    const quote = quoteOf(piece.block);
    const wasIn = before && quoteOf(before.block);
    const crosses = style.quotes === "span" && wasIn !== quote;
    if (crosses && wasIn !== undefined) items.push({ kind: "quote-close" });
    if (before) raw(gapBetween(before, piece, style));
    if (crosses && quote !== undefined) items.push({ kind: "quote-open" });
    const rows = style.hasCode && isNarrow(piece.block.table) ? rowsFrom(pieces, at) : [];
    if (rows.length > 0) {
      items.push({ kind: "code", language: "", text: rows.flatMap(columnsOf).join("\n") });
      at += rows.length - 1;
    } else putPiece(items, piece, style);
    before = pieces[at];
  }
  if (style.quotes === "span" && before && quoteOf(before.block) !== undefined)
    items.push({ kind: "quote-close" });
  return items;
}

function putPiece(items: LayoutItem[], piece: Piece, style: LayoutStyle): void {
  const { first, rest } = prefixesOf(piece, style);
  const { kind, language = "" } = piece.block;
  if (kind === "code" && style.hasCode) {
    // A marker before a code line would become part of the code, so it gets a line of its own.
    if (first.trim() !== "" && !first.startsWith(">"))
      items.push({ kind: "raw", text: `${first.trimEnd()}\n` });
    items.push({ kind: "code", text: piece.text, language });
    return;
  }
  if (first !== "") items.push({ kind: "raw", text: first });
  if (kind === "rule") items.push({ kind: "raw", text: style.rule });
  if (kind === "code") items.push({ kind: "raw", text: piece.text.replaceAll("\n", `\n${rest}`) });
  if (kind === "heading" && style.hasHeadings) {
    items.push({ kind: "raw", text: `${"#".repeat(piece.block.level ?? 1)} ` });
    for (const words of piece.words)
      putWords(items, { ...words, text: words.text.replaceAll("\n", " ") }, rest);
    return;
  }
  for (const words of piece.words) putWords(items, kind === "heading" ? emboldened(words) : words, rest);
}

function putWords(items: LayoutItem[], words: Words, rest: string): void {
  const lines = words.text.split("\n");
  for (const [index, text] of lines.entries()) {
    const isLast = index === lines.length - 1;
    if (index > 0) items.push({ kind: "raw", text: `\n${rest}` });
    if (text !== "" || words.endsLink)
      items.push({ kind: "words", words: { ...words, text, endsLink: isLast && words.endsLink } });
  }
}

function emboldened(words: Words): Words {
  return words.marks.includes("bold") ? words : { ...words, marks: ["bold", ...words.marks] };
}

/** Returns the prefix of the first line and of the other lines. */
function prefixesOf({ block, index, isStart }: Piece, { bullet, quotes }: LayoutStyle) {
  let first = "";
  let rest = "";
  for (const { kind, number, firstBlock } of block.containers) {
    const sign = number === undefined ? `${bullet} ` : `${number}. `;
    if (kind === "quote" && quotes === "sign") {
      first += "> ";
      rest += "> ";
    }
    if (kind === "item") {
      first += isStart && firstBlock === index ? sign : " ".repeat(sign.length);
      rest += " ".repeat(sign.length);
    }
  }
  return { first, rest };
}

/** Returns a blank line, or only a line feed within one table or one tight list. */
function gapBetween({ block: above }: Piece, { block: below }: Piece, { quotes }: LayoutStyle): string {
  if (above.table && above.table === below.table) return "\n";
  const shared = sharedContainers(above, below);
  if (above.isTight && below.isTight && shared.some(isList)) return "\n";
  const signs = quotes === "sign" ? shared.filter(({ kind }) => kind === "quote").length : 0;
  return `\n${"> ".repeat(signs).trimEnd()}\n`;
}

export function sharedContainers(above: Block, below: Block): readonly Container[] {
  const end = above.containers.findIndex(({ id }, at) => below.containers[at]?.id !== id);
  return end < 0 ? above.containers : above.containers.slice(0, end);
}

const isList = ({ kind }: Container) => kind === "bullets" || kind === "numbers";

/** Returns the id of the outermost quote: platforms with marked quotes do not nest them. */
const quoteOf = (block: Block) => block.containers.find(({ kind }) => kind === "quote")?.id;

function isNarrow(table: Table | undefined): boolean {
  if (!table) return false;
  return table.widths.reduce((sum, width) => sum + width + 3, -3) <= MAX_TABLE_CELLS;
}

function rowsFrom(pieces: readonly Piece[], at: number): readonly Piece[] {
  const table = pieces[at]?.block.table;
  const end = pieces.findIndex(({ block }, index) => index > at && block.table !== table);
  return pieces.slice(at, end < 0 ? pieces.length : end);
}

function columnsOf({ block, words }: Piece): readonly string[] {
  const widths = block.table?.widths ?? [];
  const cells = [""];
  for (const each of words) {
    if (each.isGap) cells.push("");
    else cells.push((cells.pop() ?? "") + plainWords(each));
  }
  const line = cells.map((cell, at) => cell + " ".repeat(Math.max(0, (widths[at] ?? 0) - cellsOf(cell))));
  const rule = widths.map((width) => "-".repeat(width)).join("-+-");
  return [line.join(" | ").trimEnd(), ...(block.isHeader ? [rule] : [])];
}

/** Text of an empty answer. It is delivered so that people see that the run ended. */
export const EMPTY_ANSWER = "(The answer was empty.)";
/** Text of an empty message that is not an answer. */
export const EMPTY_MESSAGE = "(The message was empty.)";
