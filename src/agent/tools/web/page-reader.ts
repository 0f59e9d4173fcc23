import { Worker } from "node:worker_threads";
import { abortable } from "../../../base/time.ts";
import type { ReadablePage } from "./readable.ts";

interface PageReaderOptions {
  readonly url: string;
  /** Time limit of the conversion. After it the result is the page's plain text. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

interface ReadPage extends ReadablePage {
  /** True when the page could not be converted and the text is plain. */
  readonly isBare: boolean;
}

const MAX_LAID_OUT_CHARACTERS = 8_000_000;
const MAX_HEAP_MEGABYTES = 512;

/** Source text, because a bundle has no file for the thread; it imports the chunk with the module. */
const program = `
const { parentPort, workerData } = require("node:worker_threads");
import(workerData.module).then(({ toReadable }) => {
  parentPort.postMessage(toReadable(workerData.html, workerData.url));
});`;

/**
 * Converts a page to Markdown on its own thread. A few kilobytes of nested elements can keep the search for the article
 * busy for minutes or overflow the stack, and only a thread can be stopped meanwhile.
 */
export async function readPage(
  html: string,
  { url, timeoutMs, signal }: PageReaderOptions,
): Promise<ReadPage> {
  const page =
    html.length <= MAX_LAID_OUT_CHARACTERS ? await layOut(html, url, timeoutMs, signal) : undefined;
  if (page) return { ...page, isBare: false };
  return { title: titleOf(html), markdown: plainText(html), isBare: true };
}

/** Resolves to undefined when the conversion takes too long or too much memory, or fails. */
async function layOut(
  html: string,
  url: string,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<ReadablePage | undefined> {
  // Imported only here and dynamically, which gives it its own chunk in a bundle.
  const { moduleUrl } = await import("./readable.ts");
  signal.throwIfAborted();
  const worker = new Worker(program, {
    eval: true,
    env: {},
    workerData: { module: moduleUrl, html, url },
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MEGABYTES },
    // The thread's errors are expected and need no log.
    stderr: true,
    stdout: true,
  });
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(late.resolve, timeoutMs);
  const answer = new Promise<ReadablePage | undefined>((resolve) => {
    worker.once("message", resolve);
    worker.on("error", () => resolve(undefined));
    worker.once("exit", () => resolve(undefined));
  });
  try {
    return await abortable(Promise.race([answer, late.promise]), signal);
  } finally {
    clearTimeout(timer);
    await worker.terminate();
  }
}

function titleOf(html: string): string {
  const found = /<title[^>]{0,200}>([^<]{0,300})/i.exec(html.slice(0, 100_000));
  return plainText(found?.[1] ?? "").replaceAll("\n", " ");
}

const dropped = new Set([
  "script",
  "style",
  "noscript",
  "template",
  "svg",
  "textarea",
  "select",
  "iframe",
  "title",
]);
const inline = new Set(
  "a abbr b bdi bdo cite code em font i kbd mark q s small span strong sub sup u wbr".split(" "),
);
const entities: Readonly<Record<string, string>> = {
  amp: "&",
  apos: "'",
  gt: ">",
  hellip: "…",
  lt: "<",
  mdash: "—",
  nbsp: " ",
  ndash: "–",
  quot: '"',
};
const tag = /<(?:!--|[!?]|\/?([a-zA-Z][a-zA-Z0-9-]*))/g;

/**
 * Returns the text of an HTML page without layout, in linear time for any input. Used for pages that are too large or
 * too malformed to parse; a parser with a stack of open elements would be quadratic.
 */
export function plainText(html: string): string {
  const parts: string[] = [];
  let at = 0;
  while (at < html.length) {
    tag.lastIndex = at;
    const found = tag.exec(html);
    parts.push(html.slice(at, found?.index));
    if (!found) break;
    const name = found[1]?.toLowerCase() ?? "";
    if (name !== "" && !inline.has(name)) parts.push("\n");
    at = endOf(html, found, name);
  }
  return tidy(decodeEntities(parts.join("")));
}

/** Returns where the text continues after a tag, a comment or an invisible element. */
function endOf(html: string, { 0: opening, index }: RegExpExecArray, name: string): number {
  if (opening === "<!--") return after(html, "-->", index);
  const end = after(html, ">", index);
  if (!dropped.has(name) || opening.startsWith("</")) return end;
  const closing = new RegExp(`</${name}[^>]{0,100}>`, "gi");
  closing.lastIndex = end;
  // Without a closing tag a browser shows nothing more either. Stopping here also avoids one search per opening tag.
  return closing.exec(html) ? closing.lastIndex : name === "title" ? end : html.length;
}

function after(html: string, what: string, from: number): number {
  const found = html.indexOf(what, from);
  return found === -1 ? html.length : found + what.length;
}

function decodeEntities(text: string): string {
  return text.replace(
    /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-z]{2,6}));/g,
    (whole, decimal, hex, name) => {
      if (name !== undefined) return entities[name] ?? whole;
      const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal);
      return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "";
    },
  );
}

function tidy(text: string): string {
  const lines = text.split("\n").map((line) => line.replace(/\s+/g, " ").trim());
  return lines.filter((line) => line !== "").join("\n");
}
