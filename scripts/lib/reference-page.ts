/** A reference as one self-contained HTML page. It asks nothing of the network and reads without scripts. */
import { createHash } from "node:crypto";
import type { Block, Line, Reference, Section, Span } from "./reference-model.ts";
import { PAGE_SCRIPT, PAGE_STYLE } from "./reference-style.ts";

export interface Page {
  readonly html: string;
  /** Content-Security-Policy that lets the page's own style and script run, and nothing else. */
  readonly policy: string;
}

/** The same reference always gives the same bytes. */
export function printPage(reference: Reference): Page {
  const { title, version, blocks, sections } = reference;
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)}</title>
<style>${PAGE_STYLE}</style>
</head>
<body>
<a class="skip" href="#main">To the text</a>
<header>
<details class="menu" open>
<summary><strong>${escapeHtml(title)}</strong> <small>${escapeHtml(version)}</small></summary>
<input id="filter" type="search" placeholder="Filter" aria-label="Filter the reference" hidden>
<nav aria-label="Contents">
${sections.map(printEntry).join("\n")}
</nav>
</details>
</header>
<main id="main">
<h1>${escapeHtml(title)}</h1>
${blocks.map(printBlock).join("\n")}
${sections.map((section) => printSection(section, 2)).join("\n")}
<p id="nothing" hidden>Nothing here has these words.</p>
</main>
<script>${PAGE_SCRIPT}</script>
</body>
</html>
`;
  return { html, policy: policyOf() };
}

export function escapeHtml(words: string): string {
  return words
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&#39;");
}

function policyOf(): string {
  const hash = (inline: string) => `'sha256-${createHash("sha256").update(inline).digest("base64")}'`;
  return [
    "default-src 'none'",
    `style-src ${hash(PAGE_STYLE)}`,
    `script-src ${hash(PAGE_SCRIPT)}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}

/** A top section in the navigation, with those inside that have a place there. Long lists start closed. */
function printEntry(section: Section): string {
  const inner = (section.sections ?? []).filter(({ nav }) => nav !== undefined);
  const own = printNavLink(section);
  if (inner.length === 0) return `<p>${own}</p>`;
  const items = inner.map((each) => `<li>${printNavLink(each)}</li>`).join("\n");
  const list = `<ul>\n${items}\n</ul>`;
  return inner.length > 30
    ? `<details><summary>${escapeHtml(section.nav ?? section.title)}</summary>\n${list}\n</details>`
    : `<p>${own}</p>\n${list}`;
}

function printNavLink({ id, nav, title, badge }: Section): string {
  return `<a href="#${id}">${printBadge(badge)}<span>${escapeHtml(nav ?? title)}</span></a>`;
}

function printBadge(badge: string | undefined): string {
  return badge === undefined ? "" : `<b class="badge ${badge.toLowerCase()}">${escapeHtml(badge)}</b> `;
}

function printSection(section: Section, level: number): string {
  const name = `h${Math.min(level, 6)}`;
  const isRoute = section.badge !== undefined;
  const title = isRoute ? `<code>${escapeHtml(section.title)}</code>` : escapeHtml(section.title);
  const entry = section.nav !== undefined && level > 2 ? ' class="entry"' : "";
  return [
    `<section id="${section.id}"${entry}>`,
    `<${name}><a href="#${section.id}">${printBadge(section.badge)}${title}</a></${name}>`,
    ...section.blocks.map(printBlock),
    ...(section.sections ?? []).map((inner) => printSection(inner, level + 1)),
    "</section>",
  ].join("\n");
}

function printBlock(block: Block): string {
  if (block.kind === "paragraph") return `<p>${printLine(block.line)}</p>`;
  if (block.kind === "code") return `<pre tabindex="0"><code>${escapeHtml(block.text)}</code></pre>`;
  const head = block.head.map((cell) => `<th scope="col">${escapeHtml(cell)}</th>`).join("");
  const rows = block.rows.map(
    (row) => `<tr>${row.map((cell) => `<td>${printLine(cell)}</td>`).join("")}</tr>`,
  );
  const kind = block.head.length === 3 && block.head[0] === "Status" ? "c3 status" : `c${block.head.length}`;
  return `<table class="${kind}">\n<thead><tr>${head}</tr></thead>\n<tbody>\n${rows.join("\n")}\n</tbody>\n</table>`;
}

function printLine(line: Line): string {
  return line.map(printSpan).join("").trim();
}

function printSpan(span: Span): string {
  const words = escapeHtml(span.text);
  if (span.kind === "code") return `<code>${words}</code>`;
  return span.kind === "link" ? `<a href="#${span.to}">${words}</a>` : words;
}
