import { Worker } from "node:worker_threads";
import { ToolError } from "../../tool/tool.ts";

export interface LineMatch {
  readonly line: number;
  readonly text: string;
}

interface MatcherOptions {
  readonly ignoreCase: boolean;
  /** Longer lines are tested and shown only up to here. */
  readonly maxLineCharacters: number;
  /** For one file; a pattern that takes longer is refused. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Plain text, because a bundle has no file that the thread could load. */
const program = `
const { parentPort } = require("node:worker_threads");
parentPort.on("message", ({ source, flags, text, maxMatches, maxTested, maxShown }) => {
  const pattern = new RegExp(source, flags);
  const found = [];
  let start = 0;
  for (let line = 1; start <= text.length && found.length < maxMatches; line += 1) {
    const feed = text.indexOf("\\n", start);
    const end = feed === -1 ? text.length : feed;
    const tested = text.slice(start, Math.min(end, start + maxTested));
    const match = pattern.exec(tested);
    if (match) {
      const from = match.index + match[0].length > maxShown ? Math.max(0, match.index - 40) : 0;
      const shown = tested.slice(from, from + maxShown).replace(/\\r$/, "");
      const isCut = from + maxShown < end - start;
      found.push({ line, text: (from > 0 ? "..." : "") + shown + (isCut ? "..." : "") });
    }
    start = end + 1;
  }
  parentPort.postMessage(found);
});`;
const MAX_TESTED_CHARACTERS = 20_000;

/**
 * Tests lines against a regular expression on a thread of its own: some patterns take hours for a short line, and only
 * a thread can be stopped in the middle of one.
 */
export class LineMatcher {
  readonly #source: string;
  readonly #options: MatcherOptions;
  readonly #worker: Worker;

  /** Throws ToolError when `source` is not a regular expression. */
  constructor(source: string, options: MatcherOptions) {
    try {
      new RegExp(source, "u");
      this.#source = source;
    } catch (error) {
      throw new ToolError(
        `The pattern is not a valid regular expression: ${error instanceof Error ? error.message : ""}`,
      );
    }
    this.#options = options;
    this.#worker = new Worker(program, { eval: true, env: {} });
    // A failure is seen by whoever waits; between files nobody does.
    this.#worker.on("error", () => {});
  }

  /** The first `maxMatches` lines of `text` that match. */
  match(text: string, maxMatches: number): Promise<readonly LineMatch[]> {
    const { ignoreCase, maxLineCharacters, timeoutMs, signal } = this.#options;
    return new Promise((resolve, reject) => {
      const settle = (finish: () => void) => {
        clearTimeout(timer);
        signal.removeEventListener("abort", onAbort);
        this.#worker.off("message", onMessage);
        this.#worker.off("error", onError);
        finish();
      };
      const onMessage = (found: readonly LineMatch[]) => settle(() => resolve(found));
      const onError = (error: Error) => settle(() => reject(error));
      const onAbort = () => settle(() => reject(signal.reason));
      const tooSlow = new ToolError(
        `The pattern took more than ${timeoutMs / 1000} s for one file. Make it simpler.`,
      );
      const timer = setTimeout(() => settle(() => reject(tooSlow)), timeoutMs);
      this.#worker.on("message", onMessage);
      this.#worker.on("error", onError);
      signal.addEventListener("abort", onAbort, { once: true });
      if (signal.aborted) return onAbort();
      const limits = { maxMatches, maxTested: MAX_TESTED_CHARACTERS, maxShown: maxLineCharacters };
      this.#worker.postMessage({ source: this.#source, flags: ignoreCase ? "ui" : "u", text, ...limits });
    });
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}
