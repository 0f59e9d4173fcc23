import type { Mark, Piece, Words } from "./document.ts";
import { escapeHtml, languageClass, nestMarks } from "./html.ts";
import { layOut, type LayoutItem, type LayoutStyle } from "./layout.ts";

const LAYOUT: LayoutStyle = { bullet: "•", rule: "———", quotes: "span", hasCode: true };
const TAGS: Readonly<Record<Mark, string>> = { bold: "b", italic: "i", strike: "s", code: "code" };

/** Telegram's HTML (Bot API, "HTML style"): b, i, s, code, pre, a and blockquote; everything else is escaped. */
export function renderTelegram(pieces: readonly Piece[]): string {
  const items = layOut(pieces, LAYOUT);
  let out = "";
  for (let at = 0; at < items.length; at += 1) {
    const words: Words[] = [];
    for (let item = items[at]; item?.kind === "words"; item = items[(at += 1)]) words.push(alone(item.words));
    out += nestMarks(words, TAGS) + htmlOf(items[at]);
  }
  return out;
}

function htmlOf(item: LayoutItem | undefined): string {
  switch (item?.kind) {
    case "raw":
      return escapeHtml(item.text);
    case "code": {
      const text = escapeHtml(item.text);
      if (item.language === "") return `<pre>${text}</pre>`;
      return `<pre><code${languageClass(item.language)}>${text}</code></pre>`;
    }
    case "quote-open":
      return "<blockquote>";
    case "quote-close":
      return "</blockquote>";
    default:
      return "";
  }
}

/** Code takes no other mark there, and no link. */
function alone(words: Words): Words {
  if (!words.marks.includes("code")) return words;
  return { ...words, marks: words.link ? words.marks.filter((mark) => mark !== "code") : ["code"] };
}

/** Characters that Telegram counts, which are those without tags, each escape as one. */
export function visibleText(html: string): string {
  return html.replace(/<[^<>]*>/g, "").replace(/&(?:amp|lt|gt|quot);/g, "&");
}
