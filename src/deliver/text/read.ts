import MarkdownIt, { type Env, type Token } from "markdown-it";
import { redact } from "../../base/observe.ts";
import {
  cellsOf,
  literalDocument,
  type MarkdownDocument,
  MARKS,
  plainWords,
  type Block,
  type Container,
  type Link,
  type Mark,
  type Run,
  type Table,
} from "./document.ts";
import { toReadable } from "../../base/text.ts";
import { joinText, type TextPiece } from "../target.ts";

/** Longer texts are not parsed. Parsing hostile text costs up to 15 µs a character. */
const MAX_MARKDOWN_LENGTH = 65_536;
/** Most characters that may begin markup; later paragraphs are not parsed. */
const MAX_SIGNS = 20_000;
const SIGNS = /[!*_~`<&[\\]/g;
/** The parser drops deeper nesting, so such a text is not parsed. */
const MAX_NESTING = 40;

/**
 * A slot stands for a literal value while the Markdown around it is parsed: its number between two characters that
 * Unicode reserves for such uses inside a process. The parser takes them for letters.
 */
const SLOT_START = "\ufdd0";
const SLOT_END = "\ufddb";
const FIRST_DIGIT = 0xfdd1;
const SLOT = /\ufdd0([\ufdd1-\ufdda]+)\ufddb/g;
const RESERVED = /[\ufdd0-\ufdef]/g;

const parser = new MarkdownIt("default", { maxNesting: MAX_NESTING });
// The builder decides which links are allowed; the parser would hide the address of the others.
parser.validateLink = () => true;
// Paragraphs are parsed one by one, within limits.
parser.core.ruler.enableOnly(["normalize", "block"]);
const { normalizeLink, normalizeLinkText } = parser;
parser.normalizeLink = (url) => (url.includes(SLOT_START) ? url : normalizeLink(url));
parser.normalizeLinkText = (url) => (url.includes(SLOT_START) ? url : normalizeLinkText(url));

export interface ReadOptions {
  /** Longer links become text; default 2000. */
  readonly maxHrefLength?: number;
  /** Whether marks stay characters where they begin or end inside a word, as in `__init__.py` and `2*3*4`. */
  readonly keepsInnerMarks?: boolean;
}

/**
 * Parses CommonMark with tables and strikethrough. HTML is text, except `<br>`. A text over 65,536 characters, or
 * nested too deeply, stays unparsed, because parsers are slow on hostile input. The text MUST be clean. When markup hid
 * a secret from `redact`, the secret is redacted and all marks are lost.
 */
export function readMarkdown(text: string, options: ReadOptions = {}): MarkdownDocument {
  return readSource(text, [], options);
}

/** Parses the Markdown pieces of a text as one; literal pieces are text wherever they are, even in links and code. */
export function readPieces(pieces: readonly TextPiece[], options: ReadOptions = {}): MarkdownDocument {
  const values: string[] = [];
  const source = pieces.map((piece) => {
    if ("markdown" in piece) return piece.markdown.replace(RESERVED, "");
    values.push(piece.literal.replace(RESERVED, ""));
    return slotOf(values.length - 1);
  });
  return readSource(source.join(""), values, options);
}

function slotOf(index: number): string {
  const digits = Array.from(String(index), (digit) => String.fromCharCode(FIRST_DIGIT + Number(digit)));
  return SLOT_START + digits.join("") + SLOT_END;
}

/** Splits a parsed text at its slots. */
function piecesOf(text: string, values: readonly string[]): readonly TextPiece[] {
  const pieces: TextPiece[] = [];
  let at = 0;
  for (const { 0: slot, 1: digits = "", index } of text.matchAll(SLOT)) {
    const number = Array.from(digits, (digit) => digit.charCodeAt(0) - FIRST_DIGIT).join("");
    pieces.push({ markdown: text.slice(at, index) }, { literal: values[Number(number)] ?? "" });
    at = index + slot.length;
  }
  return [...pieces, { markdown: text.slice(at).replace(RESERVED, "") }];
}

function readSource(source: string, values: readonly string[], options: ReadOptions): MarkdownDocument {
  const unparsed = () => literalDocument(joinText(piecesOf(source, values)), values.length > 0);
  if (source.length > MAX_MARKDOWN_LENGTH) return unparsed();
  const env: Env = {};
  const tokens = parser.parse(source, env);
  if (tokens.some(({ level }) => level >= MAX_NESTING - 2)) return unparsed();
  const builder = new DocumentBuilder(values, options);
  const document = buildDocument(tokens, env, builder);
  if (document.text.trim() === "") return unparsed();
  // A secret with marks inside is still a secret.
  const bare = builder.hasInnerMarks
    ? buildDocument(tokens, env, new DocumentBuilder(values, { ...options, keepsInnerMarks: false }))
    : document;
  const redacted = redact(bare.text);
  return redacted === bare.text
    ? document
    : { ...literalDocument(redacted, values.length > 0), isRedacted: true };
}

function buildDocument(tokens: readonly Token[], env: Env, builder: DocumentBuilder): MarkdownDocument {
  let signs = 0;
  for (const token of tokens) {
    if (token.type !== "inline") {
      builder.addBlock(token);
      continue;
    }
    signs += token.content.match(SIGNS)?.length ?? 0;
    if (signs > MAX_SIGNS) builder.addWords(token.content);
    else builder.addInline(readInline(token.content, env));
  }
  return builder.finish();
}

function readInline(content: string, env: Env): readonly Token[] {
  const tokens: Token[] = [];
  parser.inline.parse(content, parser, env, tokens);
  return tokens;
}

/** Deeper containers are dropped; their content stays. */
const MAX_CONTAINERS = 6;
/** Most characters of all addresses written as text: one link definition may be used often. */
const MAX_SPELLED_LENGTH = 65_536;
/** The language after a fence; other words there are ignored. */
const LANGUAGE = /^[\w+#.-]{1,32}/;

type DraftRun = { -readonly [Key in keyof Run]: Run[Key] } & { readonly text: string };

/** Builds a document from the parser's tokens. */
class DocumentBuilder {
  readonly #maxHrefLength: number;
  readonly #keepsInnerMarks: boolean;
  readonly #values: readonly string[];
  readonly #texts: string[] = [];
  readonly #blocks: Block[] = [];
  readonly #runs: DraftRun[] = [];
  #length = 0;
  hasInnerMarks = false;
  #containers: Container[] = [];
  #lastId = 0;
  #number = 1;
  #table: Table | undefined;
  #isHeader = false;
  #open: { readonly start: number; readonly firstRun: number; readonly isTight: boolean } | undefined;
  #cells = 0;
  #marks: Mark[] = [];
  #link: Link | undefined;
  #linkStart = 0;
  #spelledLength = 0;

  constructor(values: readonly string[], { maxHrefLength = 2000, keepsInnerMarks = false }: ReadOptions) {
    this.#values = values;
    this.#maxHrefLength = maxHrefLength;
    this.#keepsInnerMarks = keepsInnerMarks;
  }

  addBlock(token: Token): void {
    switch (token.type) {
      case "blockquote_open":
        return this.#enter("quote");
      case "bullet_list_open":
        return this.#enter("bullets");
      case "ordered_list_open":
        return this.#enter("numbers");
      case "list_item_open":
        this.#number = Number(token.info);
        return this.#enter("item");
      case "blockquote_close":
      case "bullet_list_close":
      case "ordered_list_close":
      case "list_item_close":
        this.#containers.pop();
        return;
      case "paragraph_open":
      case "heading_open":
        return this.#begin(token.hidden);
      case "paragraph_close":
        return this.#end({ kind: "paragraph" });
      case "heading_close":
        return this.#end({ kind: "heading", level: Number(token.tag.slice(1)) });
      case "fence":
      case "code_block":
        return this.#addCode(token);
      case "hr":
        this.#begin(false);
        this.#push("---");
        return this.#end({ kind: "rule" });
      default:
        this.#addTable(token);
    }
  }

  #addTable({ type }: Token): void {
    if (type === "table_open") this.#table = { widths: [] };
    if (type === "thead_open" || type === "tbody_open") this.#isHeader = type === "thead_open";
    if (type === "tr_open") {
      this.#begin(true);
      this.#cells = 0;
    }
    if (type === "th_open" || type === "td_open") {
      if (this.#cells > 0) this.#addRun(" | ", { isGap: true });
      this.#cells += 1;
    }
    if (type === "tr_close") this.#endRow();
    if (type === "table_close") this.#table = undefined;
  }

  #addCode({ content, info }: Token): void {
    const text = joinText(piecesOf(toReadable(content).replace(/\n+$/, ""), this.#values));
    if (text.trim() === "") return;
    this.#begin(false);
    this.#push(text);
    this.#end({ kind: "code", language: LANGUAGE.exec(info.trim())?.[0] ?? "" });
  }

  /** Adds the text of the open block. */
  addInline(tokens: readonly Token[]): void {
    const inner = this.#keepsInnerMarks ? innerMarks(tokens) : NO_TOKENS;
    if (inner.size > 0) this.hasInnerMarks = true;
    for (const token of tokens) {
      const mark = inner.has(token) ? undefined : markOf(token.tag);
      if (token.type === "softbreak" || token.type === "hardbreak") this.addWords("\n");
      else if (token.type === "link_open") this.#openLink(String(token.attrGet("href") ?? ""));
      else if (token.type === "link_close") this.#closeLink();
      else if (token.type === "image") this.#addImage(token);
      else if (token.type === "code_inline") this.#addCodeWords(token.content);
      else if (mark && token.nesting === 1) this.#marks.push(mark);
      else if (mark && token.nesting === -1) this.#marks.splice(this.#marks.lastIndexOf(mark), 1);
      else this.addWords(inner.has(token) ? token.markup : token.content);
    }
    this.#marks = [];
    this.#closeLink();
  }

  addWords(content: string): void {
    this.#addPieces(toReadable(content).replace(/<br\s*\/?>\n?/gi, "\n"), this.#table !== undefined);
  }

  #addPieces(text: string, isOneLine: boolean): void {
    for (const piece of piecesOf(text, this.#values)) {
      const isLiteral = "literal" in piece;
      const words = isLiteral ? piece.literal : piece.markdown;
      this.#addRun(isOneLine ? words.replaceAll("\n", " ") : words, { isLiteral });
    }
  }

  finish(): MarkdownDocument {
    return { text: this.#texts.join(""), blocks: this.#blocks, runs: this.#runs };
  }

  #addCodeWords(content: string): void {
    this.#marks.push("code");
    this.#addPieces(toReadable(content), true);
    this.#marks.pop();
  }

  #addImage(token: Token): void {
    if (this.#link) return this.addWords(token.content);
    this.#openLink(String(token.attrGet("src") ?? ""));
    this.addWords(token.content || "image");
    this.#closeLink();
  }

  #openLink(address: string): void {
    const pieces = piecesOf(address, this.#values);
    const href = pieces
      .map((piece) =>
        "literal" in piece ? piece.literal.trim().replace(NOT_IN_URL, encodeURIComponent) : piece.markdown,
      )
      .join("");
    this.#link = { href, isBare: false, end: this.#length };
    this.#linkStart = this.#runs.length;
  }

  /** Writes an unsafe or too long address as text, unless the text already contains it. */
  #closeLink(): void {
    const link = this.#link;
    if (!link) return;
    this.#link = undefined;
    const own = this.#runs.slice(this.#linkStart);
    if (own.length === 0) return;
    const words = own.map(({ text }) => text).join("");
    link.isBare = [words, encodeURI(words), `mailto:${words}`, `http://${words}`].includes(link.href);
    link.end = this.#length;
    if (link.href.length <= this.#maxHrefLength && isSafe(link.href)) return;
    for (const run of own) delete run.link;
    this.#spelledLength += link.href.length;
    if (link.isBare || link.href === "" || this.#spelledLength > MAX_SPELLED_LENGTH) return;
    this.#addRun(` (${link.href})`, {});
  }

  #addRun(
    text: string,
    { isGap = false, isLiteral = false }: { readonly isGap?: boolean; readonly isLiteral?: boolean },
  ): void {
    if (text === "") return;
    const start = this.#length;
    this.#push(text);
    this.#runs.push({
      text,
      start,
      end: this.#length,
      marks: isGap ? [] : MARKS.filter((mark) => this.#marks.includes(mark)),
      ...(this.#link && !isGap ? { link: this.#link } : {}),
      ...(isGap ? { isGap } : {}),
      ...(isLiteral ? { isLiteral } : {}),
    });
  }

  #enter(kind: Container["kind"]): void {
    this.#lastId += 1;
    this.#containers.push({
      kind,
      id: this.#lastId,
      ...(kind === "item" ? { firstBlock: this.#blocks.length } : {}),
      ...(kind === "item" && this.#containers.at(-1)?.kind === "numbers" ? { number: this.#number } : {}),
    });
  }

  #begin(isTight: boolean): void {
    const last = this.#blocks.at(-1);
    if (last) this.#push(isTight && last.isTight ? "\n" : "\n\n");
    this.#open = { start: this.#length, firstRun: this.#runs.length, isTight };
  }

  #end(kind: Pick<Block, "kind"> & Partial<Block>): void {
    const { start = 0, isTight = false } = this.#open ?? {};
    if (this.#length === start) return;
    const containers = this.#containers.slice(0, MAX_CONTAINERS);
    // A list without an item is dropped.
    if (/bullets|numbers/.test(containers.at(-1)?.kind ?? "")) containers.pop();
    this.#blocks.push({ start, end: this.#length, containers, isTight, ...kind });
  }

  #endRow(): void {
    const { widths = [] } = this.#table ?? {};
    let column = 0;
    let width = 0;
    for (const run of this.#runs.slice(this.#open?.firstRun)) {
      column += run.isGap ? 1 : 0;
      const words = { ...run, endsLink: run.link?.end === run.end, isGap: false };
      width = run.isGap ? 0 : width + cellsOf(plainWords(words));
      widths[column] = Math.max(widths[column] ?? 0, width);
    }
    this.#end({ kind: "row", isHeader: this.#isHeader, ...(this.#table ? { table: this.#table } : {}) });
  }

  #push(text: string): void {
    this.#texts.push(text);
    this.#length += text.length;
  }
}

function markOf(tag: string): Mark | undefined {
  if (tag === "strong") return "bold";
  if (tag === "em") return "italic";
  return tag === "s" ? "strike" : undefined;
}

function isSafe(href: string): boolean {
  const protocol = URL.parse(href)?.protocol ?? "";
  return ["http:", "https:", "mailto:"].includes(protocol) && redact(href) === href;
}

/** Characters that a URL does not contain (RFC 3986), and the parentheses that would end it in Markdown. */
const NOT_IN_URL = /[\s<>"`\\^{|}]/g;

const NO_TOKENS: ReadonlySet<Token> = new Set();
/** Scripts without spaces between words: a mark between two of their letters marks a word. */
const UNSPACED = String.raw`\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}`;
/** Words, paths, options and names of programs. */
const WORD_BEFORE = new RegExp(String.raw`(?![${UNSPACED}])[\p{L}\p{N}_/\\.=~$-]$`, "u");
const WORD_AFTER = new RegExp(String.raw`^(?:(?![${UNSPACED}])[\p{L}\p{N}_/\\=~$-]|\.[\p{L}\p{N}_*])`, "u");

/** Returns the tokens of marks that begin or end inside a word, and so are probably not marks. */
function innerMarks(tokens: readonly Token[]): ReadonlySet<Token> {
  const inner = new Set<Token>();
  const open: number[] = [];
  for (const [at, token] of tokens.entries()) {
    if (markOf(token.tag) === undefined) continue;
    if (token.nesting === 1) open.push(at);
    if (token.nesting !== -1) continue;
    const start = open.pop() ?? 0;
    const opening = tokens[start];
    if (!opening) continue;
    const before = textBeside(tokens, start, -1).slice(-2);
    const after = textBeside(tokens, at, 1).slice(0, 2);
    if (WORD_BEFORE.test(before) || WORD_AFTER.test(after)) inner.add(opening).add(token);
  }
  return inner;
}

/** Returns the text of the next token that is not a mark; a line break at the ends. */
function textBeside(tokens: readonly Token[], from: number, step: 1 | -1): string {
  for (let at = from + step; ; at += step) {
    const token = tokens[at];
    if (token === undefined || token.type.endsWith("break")) return "\n";
    if (markOf(token.tag) === undefined && token.content !== "") return token.content;
  }
}
