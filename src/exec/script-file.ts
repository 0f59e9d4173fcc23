/** A file of `<home>/scripts`, run as a program. Touches the machine. */
import type { Buffer } from "node:buffer";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { realpath, stat } from "node:fs/promises";
import { dirname, extname, isAbsolute, join } from "node:path";
import process from "node:process";
import type { Writable } from "node:stream";
import { redact } from "../base/observe/redact.ts";
import { isInside } from "../base/paths.ts";
import { OutputExcerpt } from "./output.ts";
import { superviseGroup } from "./process-group.ts";
import { tailOf } from "../base/text.ts";

interface ScriptFileOptions {
  /** All that it sees of the environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Absolute path of an existing folder. Default: its own. */
  readonly cwd?: string;
  /** What it may read from its standard input; absent: nothing. */
  readonly input?: string;
}

interface ScriptFailure {
  /** A clause for people. */
  readonly reason: string;
  /** The end of what it wrote to its standard error, without what is secret. */
  readonly complaint?: string;
}

/** What it printed, or how it failed. */
export type ScriptEnd = { readonly said: Uint8Array<ArrayBuffer> } | ScriptFailure;

/** Of standard output. One that prints more is ended. */
const MAX_OUTPUT_BYTES = 1_048_576;
const MAX_COMPLAINT_BYTES = 65_536;
const MAX_COMPLAINT_CHARACTERS = 500;

/** Where the folder of scripts stands in what people write. */
const HOME = "<home>/";

/** The real path of a file below `folder`, wherever links lead; undefined when there is none. Never rejects. */
export async function findScriptFile(script: string, folder: string): Promise<string | undefined> {
  const written = script.startsWith(HOME) ? join(dirname(folder), script.slice(HOME.length)) : script;
  try {
    const root = await realpath(folder);
    const path = await realpath(isAbsolute(written) ? written : join(root, written));
    return isInside(path, root) && (await stat(path)).isFile() ? path : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Runs a file to its end, in a process group of its own, of which nothing is left afterwards. Never rejects: every way in
 * which a script can end is a value.
 */
export async function runScriptFile(path: string, options: ScriptFileOptions): Promise<ScriptEnd> {
  for (const command of commandsFor(path)) {
    try {
      return await runCommand(command, path, options);
    } catch (error) {
      const { code } = error as { readonly code?: string };
      if (code !== "ENOENT") return { reason: `it could not be started (${code ?? "unknown reason"})` };
    }
  }
  return { reason: "the program that runs it is not installed" };
}

/** A failure as one text. */
export function describeScriptFailure({ reason, complaint = "" }: ScriptFailure): string {
  return complaint === "" ? reason : `${reason}: ${complaint}`;
}

type Command = readonly [program: string, ...args: string[]];

/** Bash for shell scripts, the runtime of this process for JavaScript, Python for all else; the first that there is. */
function commandsFor(path: string): readonly Command[] {
  switch (extname(path).toLowerCase()) {
    case ".sh":
    case ".bash":
      return [
        ["bash", path],
        ["/bin/bash", path],
      ];
    case ".js":
    case ".mjs":
    case ".ts":
      return ["Deno" in globalThis ? [process.execPath, "run", "-A", path] : [process.execPath, path]];
    default:
      return [
        ["python3", path],
        ["python", path],
      ];
  }
}

async function runCommand(
  [program, ...args]: Command,
  path: string,
  { env, timeoutMs, cwd = dirname(path), input = "" }: ScriptFileOptions,
): Promise<ScriptEnd> {
  // A group of its own, so that what it starts goes with it.
  const child = spawn(program, args, { cwd, env, detached: true, stdio: ["pipe", "pipe", "pipe"] });
  // Without a free file there are no pipes either, and only the error tells.
  const pipes: Writable | undefined = child.stdin;
  if (!pipes) throw ((await once(child, "error")) as [Error])[0];
  const flood = new AbortController();
  const output = new Output();
  const complaint = new OutputExcerpt(MAX_COMPLAINT_BYTES);
  child.stdout.on("data", (bytes: Buffer) => {
    output.take(bytes);
    if (output.isFull) flood.abort();
  });
  child.stderr.on("data", (bytes: Buffer) => complaint.push(bytes));
  // A script need not read what it is given.
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  const end = await superviseGroup(child, { timeoutMs, signal: flood.signal });
  child.stdin.destroy();
  child.stderr.destroy();
  if (end.stoppedBy === "timeout") return { reason: `it took longer than ${timeoutMs / 1000} seconds` };
  if (output.isFull) return { reason: `it printed more than ${MAX_OUTPUT_BYTES} bytes` };
  if (end.exitCode === 0) return { said: output.bytes() };
  const how = end.exitCode === undefined ? `signal ${end.signalName ?? "unknown"}` : `code ${end.exitCode}`;
  return { reason: `it ended with ${how}`, complaint: shownEnd(complaint.text()) };
}

/** Redacted before it is cut: half a secret is not known as one. */
function shownEnd(text: string): string {
  const shown = redact(text.trim()).replaceAll("\u0000", "\uFFFD");
  return tailOf(shown, MAX_COMPLAINT_CHARACTERS);
}

/** What a child printed, up to a bound; what follows is dropped. */
class Output {
  readonly #chunks: Uint8Array<ArrayBuffer>[] = [];
  #length = 0;

  get isFull(): boolean {
    return this.#length > MAX_OUTPUT_BYTES;
  }

  take(bytes: Buffer): void {
    if (this.isFull) return;
    this.#length += bytes.length;
    this.#chunks.push(new Uint8Array(bytes));
  }

  bytes(): Uint8Array<ArrayBuffer> {
    const all = new Uint8Array(this.#length);
    let at = 0;
    for (const chunk of this.#chunks) {
      all.set(chunk, at);
      at += chunk.length;
    }
    return all;
  }
}
