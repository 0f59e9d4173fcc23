import { relative } from "node:path";
import { Worker } from "node:worker_threads";
import ignore from "ignore";
import { OwnFileError } from "../../../base/system/own-files.ts";
import { secretReason } from "../../question/policy/paths.ts";
import {
  closedObject,
  flag,
  integer,
  nonEmptyText,
  defineTool,
  type Tool,
  type ToolContext,
  ToolError,
} from "../../tool/tool.ts";
import { FileWalk } from "../../../base/system/file-walk.ts";
import { isBinary, MAX_PATH_CHARACTERS, readsOf, resolvePath, statOf, openApproved } from "./paths.ts";

interface SearchInput {
  readonly pattern: string;
  readonly mode?: "names" | "content";
  readonly path?: string;
  readonly glob?: string;
  readonly ignore_case?: boolean;
  readonly max_results?: number;
}

const DEFAULT_RESULTS = 100;
const MAX_RESULTS = 500;
const MAX_PER_FILE = 50;
const MAX_ENTRIES = 200_000;
const MAX_FILE_BYTES = 4_194_304;
const MAX_TOTAL_BYTES = 268_435_456;
const MAX_SEARCH_MS = 20_000;
const MAX_FILE_MS = 2_000;
const MAX_LINE_CHARACTERS = 300;

/** The tool that finds files by name, or lines by content. */
export function createSearchFiles(): Tool {
  return defineTool<SearchInput>({
    name: "search_files",
    toolset: "files",
    kind: "search",
    description:
      "Finds files: with mode content, lines that match a regular expression; with mode names, files whose path matches " +
      "a glob. Omits files excluded by .gitignore, .git, links, binary files and files with secrets. Results are in " +
      `the order of their paths. Stops after ${MAX_SEARCH_MS / 1000} s.`,
    parameters: closedObject(
      {
        pattern: nonEmptyText(
          2000,
          "content: a JavaScript regular expression, tested line by line. names: a glob such as *.ts or src/**/x.*",
        ),
        mode: { enum: ["names", "content"], description: "Default content." },
        path: nonEmptyText(MAX_PATH_CHARACTERS, "Folder or file to search. Default: the workspace."),
        glob: nonEmptyText(1000, "With mode content: only files whose path matches."),
        ignore_case: flag("Default false."),
        max_results: integer(1, MAX_RESULTS, `Default ${DEFAULT_RESULTS}, at most ${MAX_RESULTS}.`),
      },
      ["pattern"],
    ),
    inspect: (input, { cwd }) => ({
      kind: "file",
      title: `Search ${input.path ?? "."} for ${input.pattern.slice(0, 120)}`,
      reads: readsOf(input.path ?? ".", cwd),
    }),
    run,
  });
}

async function run(input: SearchInput, context: ToolContext): Promise<string> {
  const root = resolvePath(input.path ?? ".", context.cwd);
  const found = await statOf(root);
  if (!found) throw new ToolError(`${input.path ?? root}: no such folder or file exists.`);
  const search = new Search(input, { root, isFile: found.isFile(), context });
  await search.run();
  return search.report();
}

/** One search: its results and its notes about omissions. */
class Search {
  readonly #input: SearchInput;
  readonly #at: { readonly root: string; readonly isFile: boolean; readonly context: ToolContext };
  readonly #maxResults: number;
  readonly #deadlineMs = performance.now() + MAX_SEARCH_MS;
  readonly #results: string[] = [];
  readonly #notes = new Map<string, number>();
  #bytes = 0;

  constructor(
    input: SearchInput,
    at: { readonly root: string; readonly isFile: boolean; readonly context: ToolContext },
  ) {
    this.#input = input;
    this.#at = at;
    this.#maxResults = input.max_results ?? DEFAULT_RESULTS;
  }

  async run(): Promise<void> {
    const { root, isFile, context } = this.#at;
    const isNames = this.#input.mode === "names";
    const matches = globMatcher(
      isNames ? this.#input.pattern : this.#input.glob,
      this.#input.ignore_case === true,
    );
    const matcher = isNames ? undefined : this.#matcher();
    const walk = new FileWalk(root, { maxEntries: MAX_ENTRIES, isOver: () => this.#isOver() });
    try {
      for await (const path of isFile ? [root] : walk.files()) {
        context.signal.throwIfAborted();
        if (!matches(isFile ? path.slice(path.lastIndexOf("/") + 1) : relative(root, path))) continue;
        if (matcher) await this.#searchFile(path, matcher);
        else this.#results.push(this.#show(path));
      }
      context.signal.throwIfAborted();
    } finally {
      await matcher?.close();
    }
    if (walk.cut && !this.#isFull())
      this.#note("stopped early at a limit of time, bytes or entries; narrow path or glob");
    if (walk.skipped > 0) this.#note("folders could not be read", walk.skipped);
  }

  report(): string {
    const notes = [...this.#notes].map(([text, count]) => (count > 1 ? `${count} ${text}` : text));
    if (this.#isFull())
      notes.unshift(`stopped at ${this.#maxResults} results; narrow the search or raise max_results`);
    const tail = notes.length === 0 ? "" : `\n(${notes.join("; ")})`;
    return this.#results.length === 0 ? `Nothing found.${tail}` : `${this.#results.join("\n")}${tail}`;
  }

  async #searchFile(path: string, matcher: LineMatcher): Promise<void> {
    const text = await this.#read(path);
    if (text === undefined) return;
    const found = await matcher.match(text, Math.min(MAX_PER_FILE, this.#maxResults - this.#results.length));
    if (found.length === MAX_PER_FILE)
      this.#note(`${this.#show(path)} has more than ${MAX_PER_FILE} matches`);
    for (const { line, text: shown } of found) this.#results.push(`${this.#show(path)}:${line}: ${shown}`);
  }

  /** Returns undefined for a file that is not searched. */
  async #read(path: string): Promise<string | undefined> {
    // The policy evaluates a file that was named; a search never opens a secret file by itself.
    if (!this.#at.isFile && secretReason(path, { home: "", agentHome: "\0" })) {
      return void this.#note("files that may hold secrets were omitted");
    }
    try {
      await using file = await openApproved(path, this.#at.context);
      const { size } = await file.stat();
      if (size > MAX_FILE_BYTES) return void this.#note(`files above ${MAX_FILE_BYTES} bytes were omitted`);
      this.#bytes += size;
      const bytes = await file.readFile({ signal: this.#at.context.signal });
      return isBinary(bytes) ? undefined : new TextDecoder().decode(bytes);
    } catch (error) {
      if (error instanceof OwnFileError) return void this.#note("files that may hold secrets were omitted");
      // Aborted, deleted meanwhile or not readable; the loop notices the first.
      return void this.#note("files could not be read");
    }
  }

  #matcher(): LineMatcher {
    return new LineMatcher(this.#input.pattern, {
      ignoreCase: this.#input.ignore_case === true,
      maxLineCharacters: MAX_LINE_CHARACTERS,
      timeoutMs: MAX_FILE_MS,
      signal: this.#at.context.signal,
    });
  }

  #isFull(): boolean {
    return this.#results.length >= this.#maxResults;
  }

  #isOver(): boolean {
    const isLate = performance.now() > this.#deadlineMs || this.#bytes > MAX_TOTAL_BYTES;
    return isLate || this.#isFull() || this.#at.context.signal.aborted;
  }

  #note(text: string, count = 1): void {
    this.#notes.set(text, (this.#notes.get(text) ?? 0) + count);
  }

  #show(path: string): string {
    const shown = relative(this.#at.context.cwd, path);
    return shown === "" || shown.startsWith("..") ? path : shown;
  }
}

/** Returns a matcher with .gitignore semantics: a glob without a slash matches names at any depth. */
function globMatcher(glob: string | undefined, ignoreCase: boolean): (path: string) => boolean {
  if (glob === undefined) return () => true;
  // A leading ! or # would be a negation or a comment.
  const patterns = expandBraces(glob.replace(/^\.\//, "")).map((pattern) => pattern.replace(/^[!#]/, "\\$&"));
  const rules = ignore({ ignorecase: ignoreCase, allowRelativePaths: true }).add(patterns);
  return (path) => rules.ignores(path);
}

const MAX_ALTERNATIVES = 64;

function expandBraces(glob: string): readonly string[] {
  let open = [glob];
  for (let round = 0; round < 8; round += 1) {
    const next = open.flatMap((pattern) => {
      const group = /\{([^{}]*,[^{}]*)\}/.exec(pattern);
      if (!group) return [pattern];
      const [before, after] = [pattern.slice(0, group.index), pattern.slice(group.index + group[0].length)];
      return (group[1] ?? "").split(",").map((part) => `${before}${part}${after}`);
    });
    if (next.length > MAX_ALTERNATIVES)
      throw new ToolError(`The glob has more than ${MAX_ALTERNATIVES} alternatives.`);
    if (next.length === open.length) return next;
    open = next;
  }
  return open;
}

interface LineMatch {
  readonly line: number;
  readonly text: string;
}

interface MatcherOptions {
  readonly ignoreCase: boolean;
  /** Longer lines are tested and shown up to this length. */
  readonly maxLineCharacters: number;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Source text, because a bundle has no file that the thread could load. */
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
});
parentPort.postMessage("running");`;
const MAX_TESTED_CHARACTERS = 20_000;

/**
 * Tests lines against a regular expression on its own thread: some patterns take hours for a short line, and only a
 * thread can be stopped meanwhile.
 */
class LineMatcher {
  readonly #source: string;
  readonly #options: MatcherOptions;
  readonly #worker: Worker;
  /** On a busy machine the start of the thread may take longer than a pattern may. */
  readonly #running: Promise<void>;

  /** Throws ToolError when `source` is not a valid regular expression. */
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
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#running = promise;
    this.#worker.once("message", () => resolve());
    // `match` reports a failure; between files nothing waits for one.
    this.#worker.on("error", () => resolve());
    options.signal.addEventListener("abort", () => resolve(), { once: true });
  }

  /** Resolves to the first `maxMatches` matching lines of `text`. */
  async match(text: string, maxMatches: number): Promise<readonly LineMatch[]> {
    const { ignoreCase, maxLineCharacters, timeoutMs, signal } = this.#options;
    await this.#running;
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
        `The pattern took more than ${timeoutMs / 1000} s for one file. Simplify it.`,
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
