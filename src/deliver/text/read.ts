import MarkdownIt, { type Env, type Token } from "markdown-it";
import { redact } from "../../base/observe/redact.ts";
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
import { toReadable } from "./text.ts";

/** Longer texts are not parsed. Parsing hostile text costs up to 15 µs a character. */
const MAX_MARKDOWN_LENGTH = 65_536;
/** Most characters that may begin markup; later paragraphs are not parsed. */
const MAX_SIGNS = 20_000;
const SIGNS = /[!*_~`<&[\\]/g;
/** The parser drops deeper nesting, so such a text is not parsed. */
const MAX_NESTING = 40;

const parser = new MarkdownIt("default", { maxNesting: MAX_NESTING });
// The builder decides which links are allowed; the parser would hide the address of the others.
parser.validateLink = () => true;
// Paragraphs are parsed one by one, within limits.
parser.core.ruler.enableOnly(["normalize", "block"]);

/**
 * Parses CommonMark with tables and strikethrough. HTML is text, except `<br>`. A text over 65,536 characters, or
 * nested too deeply, stays unparsed, because parsers are slow on hostile input. The text MUST be clean. When markup hid
 * a secret from `redact`, the secret is redacted and all marks are lost. Links longer than `maxHrefLength` become text.
 */
export function readMarkdown(text: string, maxHrefLength = 2000): MarkdownDocument {
  if (text.length > MAX_MARKDOWN_LENGTH) return literalDocument(text);
  const env: Env = {};
  const tokens = parser.parse(text, env);
  if (tokens.some(({ level }) => level >= MAX_NESTING - 2)) return literalDocument(text);
  const builder = new DocumentBuilder(maxHrefLength);
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
  const document = builder.finish();
  if (document.text.trim() === "") return literalDocument(text);
  const redacted = redact(document.text);
  return redacted === document.text ? document : { ...literalDocument(redacted), isRedacted: true };
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
  readonly #texts: string[] = [];
  readonly #blocks: Block[] = [];
  readonly #runs: DraftRun[] = [];
  #length = 0;
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

  constructor(maxHrefLength: number) {
    this.#maxHrefLength = maxHrefLength;
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
    const text = toReadable(content).replace(/\n+$/, "");
    if (text.trim() === "") return;
    this.#begin(false);
    this.#push(text);
    this.#end({ kind: "code", language: LANGUAGE.exec(info.trim())?.[0] ?? "" });
  }

  /** Adds the text of the open block. */
  addInline(tokens: readonly Token[]): void {
    for (const token of tokens) {
      const mark = markOf(token.tag);
      if (token.type === "softbreak" || token.type === "hardbreak") this.addWords("\n");
      else if (token.type === "link_open") this.#openLink(String(token.attrGet("href") ?? ""));
      else if (token.type === "link_close") this.#closeLink();
      else if (token.type === "image") this.#addImage(token);
      else if (token.type === "code_inline") this.#addCodeWords(token.content);
      else if (mark && token.nesting === 1) this.#marks.push(mark);
      else if (mark && token.nesting === -1) this.#marks.splice(this.#marks.lastIndexOf(mark), 1);
      else this.addWords(token.content);
    }
    this.#marks = [];
    this.#closeLink();
  }

  addWords(content: string): void {
    const text = toReadable(content).replace(/<br\s*\/?>\n?/gi, "\n");
    this.#addRun(this.#table ? text.replaceAll("\n", " ") : text, {});
  }

  finish(): MarkdownDocument {
    return { text: this.#texts.join(""), blocks: this.#blocks, runs: this.#runs };
  }

  #addCodeWords(content: string): void {
    this.#marks.push("code");
    this.#addRun(toReadable(content).replaceAll("\n", " "), {});
    this.#marks.pop();
  }

  #addImage(token: Token): void {
    if (this.#link) return this.addWords(token.content);
    this.#openLink(String(token.attrGet("src") ?? ""));
    this.addWords(token.content || "image");
    this.#closeLink();
  }

  #openLink(href: string): void {
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

  #addRun(text: string, { isGap = false }: { readonly isGap?: boolean }): void {
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
