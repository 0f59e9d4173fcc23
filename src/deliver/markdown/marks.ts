import { plainWords, type Mark, type Piece, type Words } from "./document.ts";
import { layOut, type LayoutItem, type LayoutStyle } from "./layout.ts";

const LAYOUT: LayoutStyle = { bullet: "•", rule: "———", quotes: "sign", hasCode: true };
const SIGNS: Readonly<Record<Mark, string>> = { bold: "*", italic: "_", strike: "~", code: "`" };
const WORD_END = /[\p{L}\p{N}_]$/u;
const WORD_START = /^[\p{L}\p{N}_]/u;

/** WhatsApp: `*bold*`, `_italic_`, `~strike~`, `` `code` ``, code between three backticks. It knows no escapes. */
export function renderWhatsApp(pieces: readonly Piece[]): string {
  return renderMarked(pieces, { escape: (text) => text, wordsOf: plainWords });
}

/** Slack's mrkdwn: as WhatsApp, with `<address|words>`, and with &, < and > escaped, so that no text can mention anybody. */
export function renderSlack(pieces: readonly Piece[]): string {
  return renderMarked(pieces, { escape: escapeSlack, wordsOf: linkForSlack });
}

interface Signs {
  readonly escape: (text: string) => string;
  /** Words with their link, escaped. */
  readonly wordsOf: (words: Words) => string;
}

function renderMarked(pieces: readonly Piece[], { escape, wordsOf }: Signs): string {
  const items = layOut(pieces, LAYOUT);
  let out = "";
  for (const [at, item] of items.entries()) {
    if (item.kind === "raw") out += item.text;
    // Three backticks would end it; a joiner between them is not seen.
    if (item.kind === "code") out += `\`\`\`\n${escape(item.text.replaceAll("```", "`\u2060``"))}\n\`\`\``;
    if (item.kind === "words")
      out += marked(item.words, { before: out, after: items[at + 1], text: wordsOf(item.words) });
  }
  return out;
}

/** Signs only where platforms read them as such: around words, not in their midst, and not over the same sign. */
function marked(
  { text: words, marks, link }: Words,
  place: { readonly before: string; readonly after: LayoutItem | undefined; readonly text: string },
): string {
  const { text } = place;
  const body = text.trim();
  const head = text.slice(0, text.length - text.trimStart().length);
  const tail = text.slice(text.trimEnd().length);
  const next = place.after?.kind === "words" ? place.after.words.text : "";
  const isApart = (head || !WORD_END.test(place.before.slice(-2))) && (tail || !WORD_START.test(next));
  // Neither platform follows a link in code.
  const shown = link ? marks.filter((mark) => mark !== "code") : marks;
  const signs = shown.map((mark) => SIGNS[mark]).filter((sign) => !words.includes(sign));
  if (body === "" || !isApart || signs.length === 0) return text;
  return `${head}${signs.join("")}${body}${signs.toReversed().join("")}${tail}`;
}

function linkForSlack({ text, link }: Words): string {
  if (!link) return escapeSlack(text);
  const href = escapeSlack(link.href).replaceAll("|", "%7C");
  return link.isBare ? `<${href}>` : `<${href}|${escapeSlack(text)}>`;
}

function escapeSlack(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
