/** Runs a file of `<home>/scripts` as a program. Touches the machine. */
import type { Buffer } from "node:buffer";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { realpath, stat } from "node:fs/promises";
import { dirname, extname, isAbsolute, join } from "node:path";
import type { Writable } from "node:stream";
import { redact } from "../base/observe.ts";
import { scriptProgram } from "../base/system/machine.ts";
import { isInside, tailOf } from "../base/text.ts";
import { OutputExcerpt } from "./output.ts";
import { superviseGroup } from "./process-group.ts";
import type { Confine } from "./sandbox/sandbox.ts";

interface ScriptFileOptions {
  /** The script's whole environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Absolute path of an existing folder. Default: the folder of the script. */
  readonly cwd?: string;
  /** Text for standard input. Default: none. */
  readonly input?: string;
  /** Absent: the script may do what this process may do. */
  readonly confine?: Confine | undefined;
}

interface ScriptFailure {
  /** A clause for people, such as `it took longer than 30 seconds`. */
  readonly reason: string;
  /** The end of standard error, redacted. */
  readonly stderr?: string;
}

/** What the script printed, or how it failed. */
export type ScriptEnd = { readonly output: Uint8Array<ArrayBuffer> } | ScriptFailure;

/** Limit of standard output. A script that prints more is stopped. */
const MAX_OUTPUT_BYTES = 1_048_576;
const MAX_COMPLAINT_BYTES = 65_536;
const MAX_COMPLAINT_CHARACTERS = 500;

/** Stands for the home in paths that people write. */
const HOME = "<home>/";

/**
 * Returns the real path of a file inside `folder`, with links resolved; undefined when no such file exists. Never
 * rejects.
 */
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
 * Runs a script to its end in its own process group, which is gone afterwards. Never rejects: every way in which a
 * script ends is a value.
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

/** Returns a failure as one text. */
export function describeScriptFailure({ reason, stderr = "" }: ScriptFailure): string {
  return stderr === "" ? reason : `${reason}: ${stderr}`;
}

type Command = readonly [program: string, ...args: string[]];

/** Returns the candidates in order: Bash for shell scripts, this runtime for JavaScript, Python for everything else. */
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
      return [scriptProgram(path)];
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
  { env, timeoutMs, cwd = dirname(path), input = "", confine }: ScriptFileOptions,
): Promise<ScriptEnd> {
  // Its own group, so that the processes it starts end with it.
  const plain = { program, args, cwd, env };
  const line = confine === undefined ? plain : confine(plain);
  const child = spawn(line.program, line.args, {
    cwd,
    env: line.env,
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
  });
  // Without a free file descriptor the child has no pipes, and only the error says so.
  const pipes: Writable | undefined = child.stdin;
  if (!pipes) throw ((await once(child, "error")) as [Error])[0];
  const flood = new AbortController();
  const output = new Output();
  const stderr = new OutputExcerpt(MAX_COMPLAINT_BYTES);
  child.stdout.on("data", (bytes: Buffer) => {
    output.take(bytes);
    if (output.isFull) flood.abort();
  });
  child.stderr.on("data", (bytes: Buffer) => stderr.push(bytes));
  // A script may ignore its input.
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  const end = await superviseGroup(child, { timeoutMs, signal: flood.signal });
  child.stdin.destroy();
  child.stderr.destroy();
  if (end.stoppedBy === "timeout") return { reason: `it took longer than ${timeoutMs / 1000} seconds` };
  if (output.isFull) return { reason: `it printed more than ${MAX_OUTPUT_BYTES} bytes` };
  if (end.exitCode === 0) return { output: output.bytes() };
  const how = end.exitCode === undefined ? `signal ${end.signalName ?? "unknown"}` : `code ${end.exitCode}`;
  return { reason: `it ended with ${how}`, stderr: shownEnd(stderr.text()) };
}

/** Redacts before it cuts: `redact` does not recognise half a secret. */
function shownEnd(text: string): string {
  const shown = redact(text.trim()).replaceAll("\u0000", "\uFFFD");
  return tailOf(shown, MAX_COMPLAINT_CHARACTERS);
}

/** Collects a child's output up to a limit and drops the rest. */
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
