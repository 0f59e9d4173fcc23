import { cellsOf } from "./builder.ts";
import { plainWords, type Block, type Container, type Piece, type Table, type Words } from "./document.ts";

/** Wider tables break on a phone: their rows become lines. */
const MAX_TABLE_CELLS = 60;

/** How a platform without blocks of its own shows them. */
export interface LayoutStyle {
  readonly bullet: string;
  readonly rule: string;
  /** `sign`: each line begins with `> `; `span`: the platform is told where the quote begins and ends. */
  readonly quotes: "sign" | "span";
  /** True: the platform shows code line by line as it is, so that narrow tables can stand in columns there. */
  readonly hasCode: boolean;
}

/** What to write, one after the other. `raw` is ours and needs no marks, though perhaps escapes. */
export type LayoutItem =
  | { readonly kind: "raw"; readonly text: string }
  | { readonly kind: "words"; readonly words: Words }
  | { readonly kind: "code"; readonly text: string; readonly language: string }
  | { readonly kind: "quote-open" }
  | { readonly kind: "quote-close" };

/** Blocks as lines of text: lists with their signs, quotes, tables as columns or lines, a blank line where blocks part. */
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
    // In front of the lines of code a sign would be part of the code; that of the item still tells it is one.
    if (first.trim() !== "" && !first.startsWith(">"))
      items.push({ kind: "raw", text: `${first.trimEnd()}\n` });
    items.push({ kind: "code", text: piece.text, language });
    return;
  }
  if (first !== "") items.push({ kind: "raw", text: first });
  if (kind === "rule") items.push({ kind: "raw", text: style.rule });
  if (kind === "code") items.push({ kind: "raw", text: piece.text.replaceAll("\n", `\n${rest}`) });
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

/** What stands in front of the first line of a piece, and of its other lines. */
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

/** A blank line, or only the end of the line within one table or one close list. */
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

/** The outermost quote: platforms that are told where quotes begin and end have them only once. */
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
