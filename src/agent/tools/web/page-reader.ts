import { Worker } from "node:worker_threads";
import { plainText } from "./plain-text.ts";
import type { ReadablePage } from "./readable.ts";

export interface PageReaderOptions {
  readonly url: string;
  /** Longest that the layout may take; beyond it the page's plain text is the answer. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

export interface ReadPage extends ReadablePage {
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
