import MarkdownIt, { type Env, type Token } from "markdown-it";
import { redact } from "../../base/observe/redact.ts";
import { DocumentBuilder } from "./builder.ts";
import { literalDocument, type MarkdownDocument } from "./document.ts";

/** Longer texts are taken word for word. Reading costs up to 15 µs a character of hostile text. */
const MAX_MARKDOWN_LENGTH = 65_536;
/** Characters that may begin markup, in all; paragraphs behind the last of them are taken word for word. */
const MAX_SIGNS = 20_000;
const SIGNS = /[!*_~`<&[\\]/g;
/** The parser leaves out what is nested deeper; such a text is taken word for word. */
const MAX_NESTING = 40;

const parser = new MarkdownIt("default", { maxNesting: MAX_NESTING });
// What is a link is decided by the builder; the parser would hide where others lead.
parser.validateLink = () => true;
// Paragraphs are read one by one, within bounds.
parser.core.ruler.enableOnly(["normalize", "block"]);

/**
 * What a text says and how it is marked: CommonMark with tables and strikethrough. HTML is text, but for `<br>`. A
 * text over 65,536 characters, or nested too deeply, is taken word for word, since parsers are slow on hostile input.
 * The text MUST be clean. Secrets that markup in their midst had hidden from `redact` are redacted, at the price of all
 * other markup. Links with more than `maxHrefLength` characters become words.
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
