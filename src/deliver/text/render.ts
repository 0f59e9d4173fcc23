import {
  plainWords,
  type Block,
  type Container,
  type Piece,
  type Words,
  type Mark,
  layOut,
  sharedContainers,
  type LayoutItem,
  type LayoutStyle,
} from "./document.ts";

const TAGS: Readonly<Record<Mark, string>> = { bold: "strong", italic: "em", strike: "del", code: "code" };

/**
 * Renders HTML with the tags and attributes that Matrix allows (Client-Server API, "m.room.message msgtypes"), which
 * mail readers also show. All text is escaped; only text, numbers and addresses come from the input.
 */
export function renderHtml(pieces: readonly Piece[]): string {
  let out = "";
  let before: Block | undefined;
  for (const piece of pieces) {
    const { block } = piece;
    const isSameTable = before?.table !== undefined && before.table === block.table;
    if (before?.table && !isSameTable) out += "</table>";
    const shared = before ? sharedContainers(before, block).length : 0;
    out += closeFrom(before?.containers ?? [], shared) + openFrom(block.containers, shared);
    if (block.table && !isSameTable) out += "<table>";
    const isSamePlace =
      before !== undefined && shared === Math.max(before.containers.length, block.containers.length);
    out += htmlOf(piece, isSamePlace && before?.isTight === true);
    before = block;
  }
  return out + (before?.table ? "</table>" : "") + closeFrom(before?.containers ?? [], 0);
}

function htmlOf(piece: Piece, follows: boolean): string {
  const { block, words, text } = piece;
  switch (block.kind) {
    case "rule":
      return "<hr>";
    case "heading":
      return `<h${block.level}>${lines(words)}</h${block.level}>`;
    case "code":
      return `<pre><code${languageClass(block.language)}>${escapeHtml(text)}\n</code></pre>`;
    case "row":
      return row(words, block.isHeader ? "th" : "td");
    case "paragraph":
      if (!block.isTight) return `<p>${lines(words)}</p>`;
      return (follows ? "<br>" : "") + lines(words);
  }
}

function languageClass(language = ""): string {
  return language === "" ? "" : ` class="language-${escapeHtml(language)}"`;
}

function row(words: readonly Words[], tag: string): string {
  const cells: Words[][] = [[]];
  for (const each of words) {
    if (each.isGap) cells.push([]);
    else cells.at(-1)?.push(each);
  }
  return `<tr>${cells.map((cell) => `<${tag}>${lines(cell)}</${tag}>`).join("")}</tr>`;
}

function lines(words: readonly Words[]): string {
  const indented = words.map((each) =>
    each.isLiteral ? { ...each, text: withFixedIndent(each.text) } : each,
  );
  return nestMarks(indented, TAGS).replaceAll("\n", "<br>");
}

/** HTML collapses spaces at the start of a line, and Markdown takes them for code. */
function withFixedIndent(text: string): string {
  return text.replace(/^ +/gm, (spaces) => "\u00a0".repeat(spaces.length));
}

/** Wraps text in the tags of its marks, with as few tags as possible, all closed at the end. */
function nestMarks(words: readonly Words[], tags: Readonly<Record<Mark, string>>): string {
  let out = "";
  let open: readonly string[] = [];
  for (const { text, marks, link } of words) {
    const wanted = [
      ...(link ? [`a href="${escapeHtml(link.href)}"`] : []),
      ...marks.map((mark) => tags[mark]),
    ];
    const differs = wanted.findIndex((tag, at) => tag !== open[at]);
    const kept = differs < 0 ? Math.min(wanted.length, open.length) : differs;
    out +=
      closeTags(open.slice(kept)) +
      wanted
        .slice(kept)
        .map((tag) => `<${tag}>`)
        .join("");
    out += escapeHtml(text);
    open = wanted;
  }
  return out + closeTags(open);
}

const closeTags = (tags: readonly string[]) =>
  tags
    .toReversed()
    .map((tag) => `</${tag.split(" ", 1)[0]}>`)
    .join("");

function openFrom(containers: readonly Container[], shared: number): string {
  return containers
    .slice(shared)
    .map(({ kind }, at) => {
      if (kind === "quote") return "<blockquote>";
      if (kind === "item") return "<li>";
      if (kind === "bullets") return "<ul>";
      const start = containers[shared + at + 1]?.number ?? 1;
      return start === 1 ? "<ol>" : `<ol start="${start}">`;
    })
    .join("");
}

function closeFrom(containers: readonly Container[], shared: number): string {
  const tags = { quote: "blockquote", item: "li", bullets: "ul", numbers: "ol" } as const;
  return containers
    .slice(shared)
    .toReversed()
    .map(({ kind }) => `</${tags[kind]}>`)
    .join("");
}

function escapeHtml(text: string): string {
  if (!/[&<>"]/.test(text)) return text;
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}

const TELEGRAM_LAYOUT: LayoutStyle = { bullet: "•", rule: "———", quotes: "span", hasCode: true };
const TELEGRAM_TAGS: Readonly<Record<Mark, string>> = { bold: "b", italic: "i", strike: "s", code: "code" };

/**
 * Renders Telegram's HTML (Bot API, "HTML style"): b, i, s, code, pre, a and blockquote; everything else is escaped.
 */
export function renderTelegram(pieces: readonly Piece[]): string {
  const items = layOut(pieces, TELEGRAM_LAYOUT);
  let out = "";
  for (let at = 0; at < items.length; at += 1) {
    const words: Words[] = [];
    for (let item = items[at]; item?.kind === "words"; item = items[(at += 1)])
      words.push(withoutOtherMarks(item.words));
    out += nestMarks(words, TELEGRAM_TAGS) + telegramHtmlOf(items[at]);
  }
  return out;
}

function telegramHtmlOf(item: LayoutItem | undefined): string {
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

/** In Telegram, code allows no other mark and no link. */
function withoutOtherMarks(words: Words): Words {
  if (!words.marks.includes("code")) return words;
  return { ...words, marks: words.link ? words.marks.filter((mark) => mark !== "code") : ["code"] };
}

/** Returns the characters that Telegram counts: the text without tags, with each escape as one character. */
export function visibleText(html: string): string {
  return html.replace(/<[^<>]*>/g, "").replace(/&(?:amp|lt|gt|quot);/g, "&");
}

const MARKS_LAYOUT: LayoutStyle = { bullet: "•", rule: "———", quotes: "sign", hasCode: true };
const SIGNS: Readonly<Record<Mark, string>> = { bold: "*", italic: "_", strike: "~", code: "`" };
const WORD_END = /[\p{L}\p{N}_]$/u;
const WORD_START = /^[\p{L}\p{N}_]/u;

/**
 * Renders WhatsApp's markup: `*bold*`, `_italic_`, `~strike~`, `` `code` ``, code between three backticks. WhatsApp has
 * no escapes.
 */
export function renderWhatsApp(pieces: readonly Piece[]): string {
  return renderMarked(pieces, { escape: (text) => text, wordsOf: (words) => plainWords(disarmed(words)) });
}

/**
 * Renders Slack's mrkdwn: like WhatsApp, with `<address|text>`, and with &, < and > escaped, so that no text is a
 * mention.
 */
export function renderSlack(pieces: readonly Piece[]): string {
  return renderMarked(pieces, { escape: escapeSlack, wordsOf: (words) => linkForSlack(disarmed(words)) });
}

interface Signs {
  readonly escape: (text: string) => string;
  /** Returns escaped text with its link. */
  readonly wordsOf: (words: Words) => string;
}

function renderMarked(pieces: readonly Piece[], { escape, wordsOf }: Signs): string {
  const items = layOut(pieces, MARKS_LAYOUT);
  let out = "";
  for (const [at, item] of items.entries()) {
    if (item.kind === "raw") out += item.text;
    // Three backticks would end the block; a word joiner between them is invisible.
    if (item.kind === "code") out += `\`\`\`\n${escape(item.text.replaceAll("```", "`\u2060``"))}\n\`\`\``;
    if (item.kind === "words")
      out += marked(item.words, { before: out, after: items[at + 1], text: wordsOf(item.words) });
  }
  return out;
}

/** Adds marks only where platforms recognize them: around words, not inside them, and not around the same mark. */
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
  // Neither platform makes a link inside code.
  const shown = link ? marks.filter((mark) => mark !== "code") : marks;
  const signs = shown.map((mark) => SIGNS[mark]).filter((sign) => !words.includes(sign));
  if (body === "" || !isApart || signs.length === 0) return text;
  return `${head}${signs.join("")}${body}${signs.toReversed().join("")}${tail}`;
}

/** Word joiner: invisible, and part of a word, so that no platform sees a mark beside it. */
const JOINER = "\u2060";

/** Returns literal words in which Slack and WhatsApp, which have no escapes, see no marks, quotes and lists. */
function disarmed(words: Words): Words {
  if (!words.isLiteral || words.marks.includes("code")) return words;
  const text = words.text
    .replace(/(?<![\p{L}\p{N}])[*_~`]|[*_~`](?![\p{L}\p{N}])/gu, (sign) => `${JOINER}${sign}${JOINER}`)
    .replace(/^(?=[ \t]*(?:>|[-*] |\d+[.)] ))/gm, JOINER);
  return { ...words, text };
}

function linkForSlack({ text, link }: Words): string {
  if (!link) return escapeSlack(text);
  const href = escapeSlack(link.href).replaceAll("|", "%7C");
  return link.isBare ? `<${href}>` : `<${href}|${escapeSlack(text)}>`;
}

function escapeSlack(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** The hyphen is the only bullet in the GSM alphabet; any other character would halve the length of an SMS. */
const PLAIN_LAYOUT: LayoutStyle = { bullet: "-", rule: "---", quotes: "sign", hasCode: false };

/** Renders text without marks, with links as `text (address)`. */
export function renderPlain(pieces: readonly Piece[]): string {
  return renderSignal(pieces).text;
}

/** Style names of signal-cli (manual page, `--text-style`). */
const SIGNAL_STYLES: Readonly<Record<Mark, string>> = {
  bold: "BOLD",
  italic: "ITALIC",
  strike: "STRIKETHROUGH",
  code: "MONOSPACE",
};

/** Renders like {@link renderPlain}, with `start:length:STYLE` for each mark, in UTF-16 code units. */
export function renderSignal(pieces: readonly Piece[]): {
  readonly text: string;
  readonly styles: readonly string[];
} {
  const styles: string[] = [];
  let text = "";
  for (const item of layOut(pieces, PLAIN_LAYOUT)) {
    if (item.kind === "raw") text += item.text;
    if (item.kind !== "words") continue;
    for (const mark of item.words.marks)
      styles.push(`${text.length}:${item.words.text.length}:${SIGNAL_STYLES[mark]}`);
    text += plainWords(item.words);
  }
  return { text, styles };
}

/**
 * How a platform reads Markdown. github: CommonMark, with HTML and character references. mattermost: the same without
 * HTML. discord: without both. without escapes: a platform that may show a backslash.
 */
export type MarkdownDialect = "github" | "mattermost" | "discord" | "without escapes";

const MARKDOWN_LAYOUT: LayoutStyle = {
  bullet: "-",
  rule: "---",
  quotes: "sign",
  hasCode: true,
  hasHeadings: true,
};
const MARKDOWN_SIGNS: Readonly<Record<Mark, string>> = { bold: "**", italic: "*", strike: "~~", code: "`" };

/** The start of a line inside quotes and lists, where another block may begin. */
const PREFIX = /^(?:[ >]|- |\d{1,9}\. )*$/;

/** Renders CommonMark in which all text is escaped, so that only the marks of the document are markup. */
export function renderMarkdown(pieces: readonly Piece[], dialect: MarkdownDialect): string {
  let out = "";
  for (const item of layOut(pieces, MARKDOWN_LAYOUT)) {
    if (item.kind === "raw") out += item.text;
    if (item.kind === "words") {
      const isLineStart = PREFIX.test(out.slice(out.lastIndexOf("\n") + 1));
      out += markdownWords(item.words, (text) => escapeMarkdown(text, { dialect, isLineStart }));
    }
    if (item.kind === "code") {
      const fence = "`".repeat(Math.max(3, longestBackticks(item.text) + 1));
      out += `${fence}${item.language}\n${item.text}\n${fence}`;
    }
  }
  return out;
}

function markdownWords({ text, marks, link }: Words, escape: (text: string) => string): string {
  const body = text.trim();
  const head = text.slice(0, text.length - text.trimStart().length);
  const tail = text.slice(head.length + body.length);
  if (body === "" || (marks.length === 0 && !link)) return escape(text);
  const signs = marks.filter((mark) => mark !== "code").map((mark) => MARKDOWN_SIGNS[mark]);
  const inner = marks.includes("code") ? codeSpan(body) : escape(body);
  const marked = `${signs.join("")}${inner}${signs.toReversed().join("")}`;
  if (!link) return `${escape(head)}${marked}${tail}`;
  const href = link.href.replace(/[\s<>()\\]/g, percentEncoded);
  return `${escape(head)}[${marked}](${href})${tail}`;
}

function percentEncoded(sign: string): string {
  return `%${sign.charCodeAt(0).toString(16).padStart(2, "0")}`;
}

function codeSpan(text: string): string {
  const fence = "`".repeat(longestBackticks(text) + 1);
  const pad = text.startsWith("`") || text.endsWith("`") ? " " : "";
  return `${fence}${pad}${text}${pad}${fence}`;
}

function longestBackticks(text: string): number {
  return Math.max(0, ...Array.from(text.matchAll(/`+/g), ([run]) => run.length));
}

/** For a backtick: nothing invisible keeps two of them from marking code. */
const LOOKALIKE = "\u02cb";
/** Platforms link addresses as they are; an escape in one would change it. */
const BARE_URL = /(https?:\/\/[\w\-.~:/?#@!$&'+,;=%]*[\w/])/;
/** What may begin a block, at the start of a line. */
const BLOCK_SIGN = /(?<=^[ \t]*)[-+=#>:]|(?<=^[ \t]*\d{1,9})[.)](?=\s|$)/gm;

function escapeMarkdown(
  text: string,
  { dialect, isLineStart }: { readonly dialect: MarkdownDialect; readonly isLineStart: boolean },
): string {
  // A line that continues after other words begins no block.
  if (!isLineStart) return escapeMarkdown(`x${text}`, { dialect, isLineStart: true }).slice(1);
  const armed = (sign: string) => {
    if (dialect !== "without escapes") return `\\${sign}`;
    return sign === "`" ? LOOKALIKE : `${JOINER}${sign}${JOINER}`;
  };
  const escaped = text
    .split(BARE_URL)
    .map((each, at) => (at % 2 === 1 ? bareUrl(each, dialect) : escapeSigns(each, dialect, armed)))
    .join("")
    .replace(BLOCK_SIGN, armed);
  return dialect === "discord" ? escaped : withFixedIndent(escaped);
}

function escapeSigns(text: string, dialect: MarkdownDialect, armed: (sign: string) => string): string {
  const hasReferences = dialect === "github" || dialect === "mattermost";
  const signs = dialect === "mattermost" ? /[\\`*_[\]~|]/g : /[\\`*_[\]~|<]/g;
  return (hasReferences ? text.replaceAll("&", "&amp;") : text).replace(signs, armed);
}

/** The other platforms recognize an address before the marks inside it. */
function bareUrl(url: string, dialect: MarkdownDialect): string {
  return dialect === "github" && /[_~&]/.test(url) ? `<${url}>` : url;
}
