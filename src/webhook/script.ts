/** The script of a route: sees the payload before the agent does. Touches the machine. */
import { Buffer } from "node:buffer";
import { realpath, stat } from "node:fs/promises";
import { dirname, extname, isAbsolute, join } from "node:path";
import process from "node:process";
import { spawn, type ChildProcess } from "node:child_process";
import { commandEnvironment } from "../agent/tools/command-environment.ts";
import { isInside } from "../agent/inside.ts";
import type { Clock } from "../base/clock.ts";
import { redact } from "../base/redact.ts";

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
  /** `<home>/scripts`: nothing outside is run, wherever links lead. */
  readonly folder: string;
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** Names of variables that scripts get besides the usual. */
  readonly envPassthrough: readonly string[];
}

const MAX_OUTPUT_BYTES = 1_048_576;
const STOP_GRACE_MS = 500;
const SILENT = "[SILENT]";
const IGNORE_MARKS = ["__agent_ignore__", SILENT];

export function createRunScript(options: ScriptOptions): RunScript {
  return async (script, input) => {
    try {
      const path = await contained(script, options.folder);
      if (path === undefined) return failed(`there is no file ${script} in the folder of scripts`);
      return await run(path, input, options);
    } catch (error) {
      return failed(error instanceof Error ? redact(error.message) : "it could not be started");
    }
  };
}

const failed = (reason: string): ScriptOutcome => ({ status: "failed", reason });

/** The real path of a file below the folder; undefined when there is none. */
async function contained(script: string, folder: string): Promise<string | undefined> {
  try {
    const root = await realpath(folder);
    const path = await realpath(isAbsolute(script) ? script : join(root, script));
    return isInside(path, root) && (await stat(path)).isFile() ? path : undefined;
  } catch {
    return undefined;
  }
}

/** Shell scripts run with bash, JavaScript with the runtime of this process, all else with Python. */
function interpreterOf(path: string): readonly [string, ...string[]] {
  switch (extname(path).toLowerCase()) {
    case ".sh":
    case ".bash":
      return ["bash", path];
    case ".js":
    case ".mjs":
    case ".ts":
      return "Deno" in globalThis ? [process.execPath, "run", "-A", path] : [process.execPath, path];
    default:
      return ["python3", path];
  }
}

async function run(path: string, input: ScriptInput, options: ScriptOptions): Promise<ScriptOutcome> {
  const [program, ...args] = interpreterOf(path);
  const child = spawn(program, args, {
    cwd: dirname(path),
    env: {
      ...commandEnvironment(options.envPassthrough, {}),
      AGENT_WEBHOOK_EVENT_TYPE: input.event,
      AGENT_WEBHOOK_DELIVERY_ID: input.deliveryId,
    },
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
  });
  // A script need not read what it is given.
  child.stdin.on("error", () => {});
  child.stdin.end(JSON.stringify(input.payload ?? null));
  const output = new Output();
  const errors = new Output();
  child.stdout.on("data", (bytes: Buffer) => {
    output.take(bytes);
    if (output.isFull) endGroup(child, "SIGKILL");
  });
  child.stderr.on("data", (bytes: Buffer) => errors.take(bytes));
  const end = await ended(child, options);
  if (end === "timeout") return failed(`it took longer than ${options.timeoutMs / 1000} seconds`);
  if (output.isFull) return failed(`it printed more than ${MAX_OUTPUT_BYTES} bytes`);
  if (end !== 0) return failed(`it ended with ${end}: ${redact(errors.text().trim()).slice(-500)}`);
  return outcomeOf(output.text().trim());
}

function outcomeOf(printed: string): ScriptOutcome {
  if (printed === "") return { status: "ignore", reason: "it printed nothing" };
  if (printed === SILENT) return { status: "ignore", reason: "it printed [SILENT]" };
  const value = parsed(printed);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return { status: "text", text: redact(printed) };
  }
  const payload = value as Readonly<Record<string, unknown>>;
  const mark = IGNORE_MARKS.find((name) => payload[name] === true);
  return mark === undefined
    ? { status: "payload", payload }
    : { status: "ignore", reason: `it printed ${mark}` };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** The exit code, the signal's name, or that its time was up. The whole group is gone then. */
async function ended(child: ChildProcess, { timeoutMs, clock }: ScriptOptions): Promise<number | string> {
  let isLate = false;
  const cancel = clock.after(timeoutMs, () => {
    isLate = true;
    endGroup(child, "SIGTERM");
    cancelKill = clock.after(STOP_GRACE_MS, () => endGroup(child, "SIGKILL"));
  });
  let cancelKill = () => {};
  try {
    const end = await new Promise<number | string>((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code, signal) => resolve(code ?? signal ?? "no code"));
    });
    // What it left behind must not outlive it.
    endGroup(child, "SIGKILL");
    await closed(child);
    return isLate ? "timeout" : end;
  } finally {
    cancel();
    cancelKill();
  }
}

function closed(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    const streams = [child.stdout, child.stderr];
    if (streams.every((stream) => !stream || stream.closed || stream.destroyed)) return resolve();
    child.once("close", () => resolve());
  });
}

function endGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // All gone.
  }
}

class Output {
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  get isFull(): boolean {
    return this.#bytes > MAX_OUTPUT_BYTES;
  }

  take(bytes: Buffer): void {
    if (this.isFull) return;
    this.#bytes += bytes.length;
    this.#chunks.push(bytes);
  }

  text(): string {
    return new TextDecoder().decode(Buffer.concat(this.#chunks));
  }
}
