/** An MCP server as a child process that speaks JSON-RPC on its standard streams. Touches the machine. */
import { spawn, type ChildProcess } from "node:child_process";
import type { MCPTransport } from "@ai-sdk/mcp";
import { killOnExit, signalGroup } from "../../exec/process-group.ts";
import { headOf } from "../../base/text.ts";
import { redact } from "../../base/observe.ts";
import { isRecord } from "../../base/data.ts";

type Message = Parameters<MCPTransport["send"]>[0];

interface StdioOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Receives each line of standard error. */
  readonly onLog: (line: string) => void;
  /** Called when the server has ended; `reason` says why it was stopped. */
  readonly onExit: (reason?: string) => void;
}

/** Limit of one message; a longer one ends the connection. */
const MAX_LINE_BYTES = 16_777_216;
const MAX_LOG_CHARACTERS = 2_000;
/** More than is reported of a line, so that a secret at the cut is still complete and redacted. */
const MAX_LINE_CHARACTERS = 16_384;
const KILL_GRACE_MS = 2_000;

/**
 * Replaces the SDK's transport, which passes our whole environment to the child, keeps lines of any length, and stops
 * only the child, not the processes it started.
 */
export class StdioTransport implements MCPTransport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: Message) => void;
  readonly #options: StdioOptions;
  #child: ChildProcess | undefined;
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  /** Why it was stopped. */
  #problem: string | undefined;
  #exited: Promise<void> = Promise.resolve();

  constructor(options: StdioOptions) {
    this.#options = options;
  }

  /** Starts the server. Rejects when its program cannot be started. */
  start(): Promise<void> {
    const { command, args, env, cwd, onLog } = this.#options;
    const child = spawn(command, [...args], {
      cwd,
      env,
      detached: true,
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#child = child;
    child.once("close", killOnExit(child.pid));
    this.#exited = new Promise((resolve) => {
      child.once("exit", () => resolve());
      child.once("error", () => resolve());
    });
    child.stdout.on("data", (bytes: Buffer) => this.#take(bytes));
    const log = new LogLines(onLog);
    child.stderr.on("data", (bytes: Buffer) => log.push(bytes));
    child.stderr.on("close", () => log.end());
    // Processes that outlive the server must not hold its streams open: the child would never close.
    child.once("exit", () => signalGroup(child.pid, "SIGKILL"));
    // An ended server does not read; `close` reports its end.
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

  /** Stops the server and the processes it started. Resolves when they are gone. */
  async close(): Promise<void> {
    const child = this.#child;
    if (!child?.pid) return;
    child.stdin?.end();
    signalGroup(child.pid, "SIGTERM");
    const timer = setTimeout(() => signalGroup(child.pid, "SIGKILL"), KILL_GRACE_MS);
    await this.#exited;
    clearTimeout(timer);
    // Processes that it started may have outlived it.
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
      if (!isMessage(message)) throw new TypeError("not a message");
      this.onmessage?.(message);
    } catch {
      // Not JSON, or not a message of the protocol: reports and skips it.
      this.onerror?.(new Error("the server sent a line that is not a message"));
    }
  }
}

/** Splits text into lines, whatever its chunks; reports only the beginning of a long line. */
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

  /** Reports the last line, which has no line feed. */
  end(): void {
    this.#take(`${this.#decoder.decode()}\n`);
  }

  #take(text: string): void {
    for (const [at, piece] of text.split("\n").entries()) {
      if (at > 0) this.#report();
      if (this.#line.length < MAX_LINE_CHARACTERS) this.#line += headOf(piece, MAX_LINE_CHARACTERS);
    }
  }

  /** Redacts before it cuts: `redact` does not recognise half a secret. */
  #report(): void {
    const line = this.#line;
    this.#line = "";
    if (line.trim() !== "") this.#onLine(headOf(redact(line), MAX_LOG_CHARACTERS));
  }
}

/**
 * Checks the shape only; the client parses the rest. It would read an id such as [] as 0 and settle another request.
 */
function isMessage(value: unknown): value is Message {
  if (!isRecord(value)) return false;
  const { id, method, result, error } = value;
  const isId = typeof id === "number" || typeof id === "string";
  if (typeof method === "string") return isId || id === undefined;
  return isId && (isRecord(result) || (isRecord(error) && typeof error["message"] === "string"));
}
