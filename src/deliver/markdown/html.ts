import type { Block, Container, Mark, Piece, Words } from "./document.ts";
import { sharedContainers } from "./layout.ts";

const TAGS: Readonly<Record<Mark, string>> = { bold: "strong", italic: "em", strike: "del", code: "code" };

/**
 * HTML of tags and attributes that Matrix lets through (client-server API, "m.room.message msgtypes"), which mail
 * readers show as well. Every word is escaped; nothing of it comes from outside but words, numbers and addresses.
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

export function languageClass(language = ""): string {
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
  return nestMarks(words, TAGS).replaceAll("\n", "<br>");
}

/** Words in the tags of their marks, with as few tags as they need, all closed at the end. */
export function nestMarks(words: readonly Words[], tags: Readonly<Record<Mark, string>>): string {
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

export function escapeHtml(text: string): string {
  if (!/[&<>"]/.test(text)) return text;
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
