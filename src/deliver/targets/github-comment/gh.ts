/** Runs GitHub's command-line client. Touches the machine. */
import type { Buffer } from "node:buffer";
import { spawn, type ChildProcessByStdio } from "node:child_process";
import process from "node:process";
import type { Readable, Writable } from "node:stream";
import { killOnExit } from "../../../exec/process-group.ts";
import type { Clock } from "../../../base/clock.ts";

/** How a run of gh ended. */
export type GhEnd =
  | {
      readonly kind: "exit";
      readonly code: number | undefined;
      readonly output: string;
      readonly complaint: string;
    }
  /** It was not started: the system's code, such as ENOENT. */
  | { readonly kind: "absent"; readonly code: string }
  /** It took too long, or nobody waits any more, and was killed. */
  | { readonly kind: "killed"; readonly why: "timeout" | "abort" };

/** Runs gh with these arguments and this standard input. Never rejects. */
export type RunGh = (call: GhCall) => Promise<GhEnd>;

export interface GhCall {
  readonly args: readonly string[];
  readonly input: string;
  /** Of the repositories; undefined: gh's own choice. */
  readonly host: string | undefined;
  readonly signal: AbortSignal;
}

export interface GhOptions {
  /** A path, or a name that PATH finds. */
  readonly program: string;
  /** Of the service; gh gets what it needs of it. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
}

const TIMEOUT_MS = 30_000;
/** The status, the headers and an error's message stand at the start of what it prints. */
const MAX_OUTPUT_BYTES = 262_144;
const MAX_COMPLAINT_BYTES = 4_096;
/** What its pipes get to close once it has ended and its group is gone. */
const DRAIN_MS = 500;

/** What gh finds itself, its credentials and its way out by: folders, the keyring's bus, tokens, proxies, certificates. */
const PASSED = [
  "PATH HOME XDG_CONFIG_HOME XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS",
  "GH_TOKEN GITHUB_TOKEN GH_ENTERPRISE_TOKEN GITHUB_ENTERPRISE_TOKEN GH_HOST GH_CONFIG_DIR",
  "HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy SSL_CERT_FILE SSL_CERT_DIR",
].flatMap((names) => names.split(" "));

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

export function createRunGh({ program, env, clock }: GhOptions): RunGh {
  const passed = Object.fromEntries(PASSED.flatMap((name) => (env[name] ? [[name, env[name]]] : [])));
  const quiet = { GH_PROMPT_DISABLED: "1", GH_NO_UPDATE_NOTIFIER: "1", NO_COLOR: "1" };
  return async ({ args, input, host, signal }) => {
    const child = spawn(program, args, {
      cwd: "/",
      env: { ...passed, ...quiet, ...(host === undefined ? {} : { GH_HOST: host }) },
      // A group of its own, so that what it starts goes with it.
      detached: true,
      stdio: ["pipe", "pipe", "pipe"],
    });
    // Without a free file there are no pipes either, and only the error tells.
    const pipes: Writable | undefined = child.stdin;
    if (!pipes) return absent(await exited(child).catch((error: unknown) => error));
    // A program that ends at once does not read.
    pipes.on("error", () => {});
    pipes.end(input);
    return ended(child, { clock, signal });
  };
}

/** Resolves when the program and all that it started are gone. */
async function ended(
  child: Child,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<GhEnd> {
  const output = collect(child.stdout, MAX_OUTPUT_BYTES);
  const complaint = collect(child.stderr, MAX_COMPLAINT_BYTES);
  const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const letGo = killOnExit(child.pid);
  const drained = Promise.withResolvers<void>();
  let cancelDrain = () => {};
  let why: "timeout" | "abort" | undefined;
  const kill = (reason: "timeout" | "abort") => {
    why ??= reason;
    killGroup(child.pid);
  };
  const onAbort = () => kill("abort");
  const cancel = clock.after(TIMEOUT_MS, () => kill("timeout"));
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    const code = await exited(child);
    cancelDrain = clock.after(DRAIN_MS, drained.resolve);
    killGroup(child.pid);
    await Promise.race([closed, drained.promise]);
    if (why !== undefined) return { kind: "killed", why };
    return { kind: "exit", code, output: output(), complaint: complaint() };
  } catch (error) {
    return absent(error);
  } finally {
    cancel();
    cancelDrain();
    letGo();
    signal.removeEventListener("abort", onAbort);
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
  }
}

function absent(error: unknown): GhEnd {
  const { code } = Object(error) as { readonly code?: unknown };
  return { kind: "absent", code: String(code ?? "unknown reason") };
}

function exited(child: Child): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => resolve(code ?? undefined));
  });
}

/** The text of the first bytes; the rest is read and dropped, so that nobody waits to write. */
function collect(stream: Readable, maxBytes: number): () => string {
  const chunks: Buffer[] = [];
  let length = 0;
  stream.on("error", () => {});
  stream.on("data", (bytes: Buffer) => {
    const kept = bytes.subarray(0, maxBytes - length);
    length += kept.length;
    if (kept.length > 0) chunks.push(kept);
  });
  return () => {
    const decoder = new TextDecoder();
    return chunks.map((bytes) => decoder.decode(bytes, { stream: true })).join("");
  };
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // All gone.
  }
}
