/** Runs GitHub's command-line client. Touches the machine. */
import type { Buffer } from "node:buffer";
import { spawn, type ChildProcessByStdio } from "node:child_process";
import process from "node:process";
import type { Readable, Writable } from "node:stream";
import { findProgram } from "../../../base/system/machine.ts";
import { killOnExit } from "../../../exec/process-group.ts";
import type { Clock } from "../../../base/time.ts";
import type { SendFailure } from "../../platform/call.ts";
import { cleanText } from "../../target.ts";
import { parseRetryAfter } from "../../../base/net/fetch.ts";

/** How a run of gh ended. */
type GhEnd =
  | {
      readonly kind: "exit";
      readonly code: number | undefined;
      readonly output: string;
      readonly stderr: string;
    }
  /** The program did not start; `code` is the system's, such as ENOENT. */
  | { readonly kind: "absent"; readonly code: string }
  /** The program was killed after a timeout or an abort. */
  | { readonly kind: "killed"; readonly why: "timeout" | "abort" };

/** Runs gh with these arguments and this standard input. Never rejects. */
export type RunGh = (call: GhCall) => Promise<GhEnd>;

interface GhCall {
  readonly args: readonly string[];
  readonly input: string;
  /** Host of the repository; undefined: the default of gh. */
  readonly host: string | undefined;
  readonly signal: AbortSignal;
}

interface GhOptions {
  /** A path, or a name that is found through PATH. */
  readonly program: string;
  /** Environment of the service; gh gets only what it needs. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
}

const TIMEOUT_MS = 30_000;
/** The status, the headers and the error message are at the start of the output. */
const MAX_OUTPUT_BYTES = 262_144;
const MAX_COMPLAINT_BYTES = 4_096;
/** Time for the pipes to close after the program has ended. */
const DRAIN_MS = 500;

/** Variables that gh needs: folders, the keyring's bus, tokens, proxies, certificates. */
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
      // Its own process group, so that its children are killed with it.
      detached: true,
      stdio: ["pipe", "pipe", "pipe"],
    });
    // Without free file descriptors the pipes are missing, and only the error event reports it.
    const pipes: Writable | undefined = child.stdin;
    if (!pipes) return absent(await exited(child).catch((error: unknown) => error));
    // A program that ends at once does not read its input.
    pipes.on("error", () => {});
    pipes.end(input);
    return ended(child, { clock, signal });
  };
}

/** Resolves when the program and its children have ended. */
async function ended(
  child: Child,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<GhEnd> {
  const output = collect(child.stdout, MAX_OUTPUT_BYTES);
  const stderr = collect(child.stderr, MAX_COMPLAINT_BYTES);
  const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const release = killOnExit(child.pid);
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
    return { kind: "exit", code, output: output(), stderr: stderr() };
  } catch (error) {
    return absent(error);
  } finally {
    cancel();
    cancelDrain();
    release();
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

/** Returns the text of the first bytes. The rest is read and dropped, so that the program does not block. */
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
    // The group has already ended.
  }
}

/** The response that `gh api -i` prints. */
interface GhAnswer {
  readonly status: number;
  /** By lower-case name. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

const MAX_SAID_CHARACTERS = 200;
/** GitHub asks for at least a minute when it names no time: REST API, Rate limits, Exceeding the rate limit. */
const SECONDARY_LIMIT_MS = 60_000;
const MAX_RESET_MS = 3_600_000;
/** gh's own exit code for commands that need a login: gh help exit-codes. */
const NOT_SIGNED_IN = 4;
/** The request was not sent. */
const NOT_SENT = /proxyconnect|dial tcp|no such host|connection refused|x509|tls:|certificate|lookup /i;

/** Parses the output of `gh api -i`; undefined when it contains no status. */
export function parseAnswer(output: string): GhAnswer | undefined {
  const [, status] = /^HTTP\/[\d.]+ (\d{3})\b/.exec(output) ?? [];
  if (status === undefined) return undefined;
  const end = /\r?\n\r?\n/.exec(output);
  const head = output.slice(0, end?.index ?? output.length);
  const headers = head.split(/\r?\n/).flatMap((line): [string, string][] => {
    const colon = line.indexOf(":");
    return colon < 0 ? [] : [[line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]];
  });
  const body = end ? output.slice(end.index + end[0].length) : "";
  return { status: Number(status), headers: new Map(headers), body };
}

/** Returns the outcome of a run without a successful response. */
export function failureOf(end: GhEnd, nowMs: number): SendFailure {
  if (end.kind === "absent") return { status: "retry", error: absence(end.code) };
  if (end.kind === "killed")
    return {
      status: "unknown",
      error: "gh did not end in time. The comment may have arrived; the next attempt searches for it first.",
    };
  const answer = parseAnswer(end.output);
  if (answer) return failureOfAnswer(answer, nowMs);
  if (end.code === NOT_SIGNED_IN) {
    return {
      status: "retry",
      error: "gh is not signed in: run `gh auth login` on the gateway's host as its user, or set GH_TOKEN.",
    };
  }
  const summary = shown(end.stderr) || `exit code ${end.code ?? "unknown"}`;
  if (NOT_SENT.test(end.stderr)) return { status: "retry", error: `gh could not reach GitHub: ${summary}.` };
  return {
    status: "unknown",
    error: `gh failed: ${summary}. The comment may have arrived; the next attempt searches for it first.`,
  };
}

function failureOfAnswer(answer: GhAnswer, nowMs: number): SendFailure {
  const { status } = answer;
  const message = messageOf(answer);
  const summary = `GitHub answered ${status}${message === "" ? "" : `: ${message}`}.`;
  const throttledMs = throttleOf(answer, message, nowMs);
  if (throttledMs !== undefined)
    return { status: "retry", error: summary, isThrottled: true, afterMs: throttledMs };
  if (status < 400 && /\bhtml\b/i.test(answer.headers.get("content-type") ?? "")) {
    return {
      status: "retry",
      error: `GitHub answered ${status} with a web page. Check for a proxy in between.`,
    };
  }
  if (status === 408 || status >= 500) return { status: "retry", error: summary };
  return { status: "permanent", error: `${summary} ${hintOf(status)}` };
}

function hintOf(status: number): string {
  if (status === 401)
    return "The token is missing or invalid: run `gh auth login` on the gateway's host, or set GH_TOKEN.";
  if (status === 403)
    return "Check that the token may comment there and that the conversation is not locked.";
  if (status === 404)
    return "Check that the number exists in that repository and that the token can read it.";
  if (status === 410) return "Comments are disabled there.";
  if (status === 422) return "GitHub does not accept this text.";
  // gh turns a followed redirect into a GET request: no comment was written.
  if (status < 400) return "No comment was created. If the repository was renamed, use its new name.";
  return "See the comments API of GitHub.";
}

/** Returns how long GitHub asks to wait, milliseconds; undefined when it is not a rate limit. */
function throttleOf({ status, headers }: GhAnswer, message: string, nowMs: number): number | undefined {
  if (status !== 403 && status !== 429) return undefined;
  const askedMs = parseRetryAfter(headers.get("retry-after"), nowMs);
  if (askedMs !== undefined) return askedMs;
  if (headers.get("x-ratelimit-remaining") === "0") {
    const resetMs = Number(headers.get("x-ratelimit-reset")) * 1000 - nowMs;
    return Number.isFinite(resetMs) ? Math.min(Math.max(resetMs, 1000), MAX_RESET_MS) : SECONDARY_LIMIT_MS;
  }
  const isLimit = status === 429 || /secondary rate limit|abuse detection/i.test(message);
  return isLimit ? SECONDARY_LIMIT_MS : undefined;
}

const INSTALL =
  "Install GitHub CLI (https://cli.github.com) on the gateway's host, or set platforms.github_comment.program";

function absence(code: string): string {
  return code === "ENOENT" ? `${notInstalled}.` : `Cannot start the program gh (${code}). ${INSTALL}.`;
}

const notInstalled = `The program gh is not installed. ${INSTALL}`;

/** Returns that gh cannot be run and what to do, a sentence without its full stop; undefined when it can. */
export async function findGhProblem({ program, env }: Omit<GhOptions, "clock">): Promise<string | undefined> {
  return (await findProgram(program, env)) === undefined ? notInstalled : undefined;
}

function messageOf({ body }: GhAnswer): string {
  try {
    const { message } = Object(JSON.parse(body)) as { readonly message?: unknown };
    return typeof message === "string" ? shown(message) : "";
  } catch {
    return "";
  }
}

/** Returns a text from outside as one clean line. */
function shown(text: string): string {
  const line = cleanText(text).replace(/\s+/g, " ").trim().replace(/\.$/, "");
  return line.slice(0, MAX_SAID_CHARACTERS);
}
