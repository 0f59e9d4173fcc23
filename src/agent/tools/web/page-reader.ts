import { Worker } from "node:worker_threads";
import type { ReadablePage } from "./readable.ts";

interface PageReaderOptions {
  readonly url: string;
  /** Longest that the layout may take; beyond it the page's plain text is the answer. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

interface ReadPage extends ReadablePage {
  /** The page could not be laid out in time: the text is bare. */
  readonly isBare: boolean;
}

const MAX_LAID_OUT_CHARACTERS = 8_000_000;
const MAX_HEAP_MEGABYTES = 512;

/** Plain text, because a bundle has no file of its own for the thread; it loads the chunk that holds the module. */
const program = `
const { parentPort, workerData } = require("node:worker_threads");
import(workerData.module).then(({ toReadable }) => {
  parentPort.postMessage(toReadable(workerData.html, workerData.url));
});`;

/**
 * Turns a page into Markdown on a thread of its own. A few kilobytes of nested elements keep the search for the article
 * busy for minutes or overrun the stack, and only a thread can be stopped in the middle of that.
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

/** Resolves to undefined when it takes too long, too much memory, or fails. */
async function layOut(
  html: string,
  url: string,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<ReadablePage | undefined> {
  // Imported here alone, and late: that is what gives it a chunk of its own in a bundle.
  const { moduleUrl } = await import("./readable.ts");
  signal.throwIfAborted();
  const worker = new Worker(program, {
    eval: true,
    env: {},
    workerData: { module: moduleUrl, html, url },
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MEGABYTES },
    // What goes wrong inside is not news for anyone.
    stderr: true,
    stdout: true,
  });
  let stop = () => {};
  try {
    return await new Promise<ReadablePage | undefined>((resolve, reject) => {
      const timer = setTimeout(() => resolve(undefined), timeoutMs);
      const onAbort = () => reject(signal.reason);
      stop = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", onAbort);
      };
      signal.addEventListener("abort", onAbort, { once: true });
      worker.once("message", resolve);
      worker.on("error", () => resolve(undefined));
      worker.once("exit", () => resolve(undefined));
    });
  } finally {
    stop();
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
 * The text of an HTML page without its layout, in time linear in its length whatever the page is: the way out when a
 * page is too large or too odd to be made into a document.
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

/** Where the text goes on after a tag, a comment, or an element of which nothing is shown. */
function endOf(html: string, { 0: opening, index }: RegExpExecArray, name: string): number {
  if (opening === "<!--") return after(html, "-->", index);
  const end = after(html, ">", index);
  if (!dropped.has(name) || opening.startsWith("</")) return end;
  const closing = new RegExp(`</${name}[^>]{0,100}>`, "gi");
  closing.lastIndex = end;
  // Without a closing tag a browser shows nothing more either; it also keeps many openings from many searches.
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
