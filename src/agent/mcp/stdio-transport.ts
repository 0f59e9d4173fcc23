/** A server of tools as a child process that speaks JSON-RPC on its standard streams. Touches the machine. */
import { spawn, type ChildProcess } from "node:child_process";
import process from "node:process";
import type { MCPTransport } from "@ai-sdk/mcp";
import { holdGroup } from "../../exec/process-group.ts";
import { headOf } from "../../base/text.ts";
import { redact } from "../../base/observe/redact.ts";
import { isRecord } from "../../base/json/schema.ts";

type Message = Parameters<MCPTransport["send"]>[0];

interface StdioOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** What it writes to its standard error, a line at a time. */
  readonly onLog: (line: string) => void;
  /** It ended, asked to or not; `reason` says why we ended it. */
  readonly onExit: (reason?: string) => void;
}

/** Longest message; a longer one ends the connection. */
const MAX_LINE_BYTES = 16_777_216;
const MAX_LOG_CHARACTERS = 2_000;
/** More than is told of a line, so that a secret at its cut is whole. */
const MAX_HELD_CHARACTERS = 16_384;
const KILL_GRACE_MS = 2_000;

/**
 * Own, because the SDK's gives the child our environment, keeps lines of any length, and ends only the child, not what
 * it started.
 */
export class StdioTransport implements MCPTransport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: Message) => void;
  readonly #options: StdioOptions;
  #child: ChildProcess | undefined;
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  /** Why it had to be ended. */
  #problem: string | undefined;
  #exited: Promise<void> = Promise.resolve();

  constructor(options: StdioOptions) {
    this.#options = options;
  }

  /** Rejects when the program cannot be started. */
  start(): Promise<void> {
    const { command, args, env, cwd, onLog } = this.#options;
    const child = spawn(command, [...args], {
      cwd,
      env,
      detached: true,
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#child = child;
    child.once("close", holdGroup(child.pid));
    this.#exited = new Promise((resolve) => {
      child.once("exit", () => resolve());
      child.once("error", () => resolve());
    });
    child.stdout.on("data", (bytes: Buffer) => this.#take(bytes));
    const log = new LogLines(onLog);
    child.stderr.on("data", (bytes: Buffer) => log.push(bytes));
    child.stderr.on("close", () => log.end());
    // What outlives the server must not hold its streams open: close would never come.
    child.once("exit", () => signalGroup(child.pid, "SIGKILL"));
    // A server that ended does not read: its end is told by close.
    child.stdin.on("error", () => {});
    child.once("close", () => {
      this.#options.onExit(this.#problem);
      this.onclose?.();
    });
    return new Promise((resolve, reject) => {
      child.once("spawn", () => resolve());
      child.once("error", reject);
    });
  }

  send(message: Message): Promise<void> {
    const stdin = this.#child?.stdin;
    if (!stdin || stdin.destroyed) return Promise.reject(new Error("the server has ended"));
    return new Promise((resolve, reject) => {
      stdin.write(`${JSON.stringify(message)}\n`, (error) => (error ? reject(error) : resolve()));
    });
  }

  /** Ends the server with all it started; resolves when it is gone. */
  async close(): Promise<void> {
    const child = this.#child;
    if (!child?.pid) return;
    child.stdin?.end();
    signalGroup(child.pid, "SIGTERM");
    const timer = setTimeout(() => signalGroup(child.pid, "SIGKILL"), KILL_GRACE_MS);
    await this.#exited;
    clearTimeout(timer);
    // What it started may have outlived it.
    signalGroup(child.pid, "SIGKILL");
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.destroy();
  }

  #take(bytes: Buffer): void {
    let start = 0;
    for (let feed = bytes.indexOf(10); feed !== -1; feed = bytes.indexOf(10, start)) {
      const line = Buffer.concat([...this.#pending, bytes.subarray(start, feed)]);
      this.#pending = [];
      this.#pendingBytes = 0;
      start = feed + 1;
      this.#line(line.toString());
    }
    const rest = bytes.subarray(start);
    this.#pendingBytes += rest.length;
    if (rest.length > 0) this.#pending.push(rest);
    if (this.#pendingBytes <= MAX_LINE_BYTES) return;
    this.#pending = [];
    this.#pendingBytes = 0;
    this.#problem = `it sent a line of more than ${MAX_LINE_BYTES} bytes`;
    this.onerror?.(new Error(this.#problem));
    signalGroup(this.#child?.pid, "SIGKILL");
  }

  #line(line: string): void {
    if (line.trim() === "") return;
    try {
      const message: unknown = JSON.parse(line);
      if (!isMessage(message)) throw new TypeError("no message");
      this.onmessage?.(message);
    } catch {
      // Not JSON, or nothing the client understands: told, and passed over.
      this.onerror?.(new Error("the server sent what is no message"));
    }
  }
}

/** Takes text apart into lines, however it is cut into pieces; of a line that is too long the beginning is told. */
export class LogLines {
  readonly #onLine: (line: string) => void;
  readonly #decoder = new TextDecoder();
  #line = "";

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  push(bytes: Uint8Array): void {
    this.#take(this.#decoder.decode(bytes, { stream: true }));
  }

  /** Tells the last line, which no line feed ended. */
  end(): void {
    this.#take(`${this.#decoder.decode()}\n`);
  }

  #take(text: string): void {
    for (const [at, piece] of text.split("\n").entries()) {
      if (at > 0) this.#tell();
      if (this.#line.length < MAX_HELD_CHARACTERS) this.#line += headOf(piece, MAX_HELD_CHARACTERS);
    }
  }

  /** Redacted before it is cut: half a secret is not known as one. */
  #tell(): void {
    const line = this.#line;
    this.#line = "";
    if (line.trim() !== "") this.#onLine(headOf(redact(line), MAX_LOG_CHARACTERS));
  }
}

/** By shape only; the client parses what it wants. An id such as [] would count as 0 there, and end another's wait. */
function isMessage(value: unknown): value is Message {
  if (!isRecord(value)) return false;
  const { id, method, result, error } = value;
  const isId = typeof id === "number" || typeof id === "string";
  if (typeof method === "string") return isId || id === undefined;
  return isId && (isRecord(result) || (isRecord(error) && typeof error["message"] === "string"));
}

function signalGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // All gone.
  }
}
