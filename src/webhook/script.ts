/** The script of a route: sees the payload before the agent does. Touches the machine. */
import type { Buffer } from "node:buffer";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { realpath, stat } from "node:fs/promises";
import { dirname, extname, isAbsolute, join } from "node:path";
import type { Writable } from "node:stream";
import process from "node:process";
import { isInside } from "../agent/inside.ts";
import { commandEnvironment } from "../agent/tools/command-environment.ts";
import { superviseGroup } from "../agent/tools/process-group.ts";
import { isExactNumber } from "../base/exact-json.ts";
import type { Log } from "../base/log.ts";
import { redact, redactValue } from "../base/redact.ts";
import { fromJson } from "./payload.ts";

export interface ScriptInput {
  readonly payload: unknown;
  readonly event: string;
  readonly deliveryId: string;
}

export type ScriptOutcome =
  | { readonly status: "payload"; readonly payload: Readonly<Record<string, unknown>> }
  | { readonly status: "text"; readonly text: string }
  /** It says that nothing is to be done. */
  | { readonly status: "ignore"; readonly reason: string }
  | { readonly status: "failed"; readonly reason: string };

/** Never rejects: every way in which a script can end is an outcome. */
export type RunScript = (script: string, input: ScriptInput) => Promise<ScriptOutcome>;

export interface ScriptOptions {
  /** `<home>/scripts`, absolute: nothing outside is run, wherever links lead. */
  readonly folder: string;
  readonly timeoutMs: number;
  /** Names of variables that scripts get besides the usual. */
  readonly envPassthrough: readonly string[];
  readonly log: Pick<Log, "warn">;
}

const MAX_OUTPUT_BYTES = 1_048_576;
/** Of what a script that failed wrote to its standard error, as the record keeps it: the end. */
const MAX_COMPLAINT_CHARACTERS = 500;
const MAX_VARIABLE_CHARACTERS = 1_000;
const SILENT = "[SILENT]";
const IGNORE_MARKS = ["__agent_ignore__", SILENT];

/** Scripts of all routes at work at once; others wait. */
const MAX_RUNNING = 16;
const MAX_WAITING = 1_000;

export function createRunScript(options: ScriptOptions): RunScript {
  const slots = new Slots();
  return async (script, input) => {
    const path = await contained(script, options.folder);
    const ended = path === undefined ? ABSENT : await slots.use(() => run(path, input, options));
    const outcome = "said" in ended ? outcomeOf(ended.said) : ended;
    if (outcome.status !== "failed") return outcome;
    // What it complained of may hold the payload, and stays out of the log.
    options.log.warn("a webhook's script failed", {
      script,
      delivery: input.deliveryId,
      reason: outcome.reason,
    });
    const { complaint = "" } = "complaint" in ended ? ended : {};
    return failed(complaint === "" ? outcome.reason : `${outcome.reason}: ${complaint}`);
  };
}

interface Failed {
  readonly status: "failed";
  readonly reason: string;
  /** What it wrote to its standard error, without what is secret. */
  readonly complaint?: string;
}

type Ended = { readonly said: Uint8Array } | Failed;

const failed = (reason: string): Failed => ({ status: "failed", reason });
const ABSENT = failed("there is no such file in the folder of scripts");

/** The real path of a file below the folder; undefined when there is none. */
async function contained(script: string, folder: string): Promise<string | undefined> {
  const written = script.startsWith(HOME) ? join(dirname(folder), script.slice(HOME.length)) : script;
  try {
    const root = await realpath(folder);
    const path = await realpath(isAbsolute(written) ? written : join(root, written));
    return isInside(path, root) && (await stat(path)).isFile() ? path : undefined;
  } catch {
    return undefined;
  }
}

const HOME = "<home>/";

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

async function run(path: string, input: ScriptInput, options: ScriptOptions): Promise<Ended> {
  for (const command of commandsFor(path)) {
    try {
      return await runCommand(command, input, { ...options, cwd: dirname(path) });
    } catch (error) {
      const { code } = error as { readonly code?: string };
      if (code !== "ENOENT") return failed(`it could not be started (${code ?? "unknown reason"})`);
    }
  }
  return failed("the program that runs it is not installed");
}

async function runCommand(
  [program, ...args]: Command,
  input: ScriptInput,
  { cwd, timeoutMs, envPassthrough }: ScriptOptions & { readonly cwd: string },
): Promise<Ended> {
  const child = spawn(program, args, {
    cwd,
    env: {
      ...commandEnvironment(envPassthrough, {}),
      AGENT_WEBHOOK_EVENT_TYPE: variable(input.event),
      AGENT_WEBHOOK_DELIVERY_ID: variable(input.deliveryId),
    },
    // A group of its own, so that what it starts goes with it.
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
  });
  // Without a free file there are no pipes either, and only the error tells.
  const pipes: Writable | undefined = child.stdin;
  if (!pipes) throw ((await once(child, "error")) as [Error])[0];
  const flood = new AbortController();
  const output = new Output();
  const complaint = new Output();
  child.stdout.on("data", (bytes: Buffer) => {
    output.take(bytes);
    if (output.isFull) flood.abort();
  });
  child.stderr.on("data", (bytes: Buffer) => complaint.take(bytes));
  // A script need not read what it is given.
  child.stdin.on("error", () => {});
  child.stdin.end(JSON.stringify(input.payload ?? null));
  const end = await superviseGroup(child, { timeoutMs, signal: flood.signal });
  child.stdin.destroy();
  child.stderr.destroy();
  if (end.stoppedBy === "timeout") return failed(`it took longer than ${timeoutMs / 1000} seconds`);
  if (output.isFull) return failed(`it printed more than ${MAX_OUTPUT_BYTES} bytes`);
  if (end.exitCode === 0) return { said: output.bytes() };
  const how = end.exitCode === undefined ? `signal ${end.signalName ?? "unknown"}` : `code ${end.exitCode}`;
  return { ...failed(`it ended with ${how}`), complaint: shownEnd(complaint.bytes()) };
}

function shownEnd(bytes: Uint8Array): string {
  return redact(decoder.decode(bytes).trim()).slice(-MAX_COMPLAINT_CHARACTERS).toWellFormed();
}

/** Senders choose these: the system takes neither a NUL nor a megabyte. */
function variable(text: string): string {
  return text.slice(0, MAX_VARIABLE_CHARACTERS).replaceAll("\u0000", "");
}

function outcomeOf(said: Uint8Array): ScriptOutcome {
  const text = decoder.decode(said).trim();
  if (text === "") return { status: "ignore", reason: "it printed nothing" };
  if (text === SILENT) return { status: "ignore", reason: `it printed ${SILENT}` };
  const parsed = fromJson(text);
  if ("flaw" in parsed && parsed.flaw === "too_deep")
    return failed("it printed JSON that is nested too deep");
  const value = "payload" in parsed ? redactValue(parsed.payload) : undefined;
  if (typeof value !== "object" || value === null || Array.isArray(value) || isExactNumber(value)) {
    return { status: "text", text: redact(text) };
  }
  const payload = value as Readonly<Record<string, unknown>>;
  const mark = IGNORE_MARKS.find((name) => Object.hasOwn(payload, name) && payload[name] === true);
  return mark === undefined
    ? { status: "payload", payload }
    : { status: "ignore", reason: `it printed ${mark}` };
}

const decoder = new TextDecoder();

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

  bytes(): Uint8Array {
    const all = new Uint8Array(this.#length);
    let at = 0;
    for (const chunk of this.#chunks) {
      all.set(chunk, at);
      at += chunk.length;
    }
    return all;
  }
}

class Slots {
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  async use(work: () => Promise<Ended>): Promise<Ended> {
    if (this.#waiting.length >= MAX_WAITING) return failed(`${MAX_WAITING} scripts are waiting already`);
    if (this.#running >= MAX_RUNNING) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running++;
    try {
      return await work();
    } finally {
      // Who waits takes the place over.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running--;
    }
  }
}
