/** The gateway on standard input and output: a JSON value a line. Touches the machine. */
import process from "node:process";
import type { GatewayEvent } from "../../generated/gateway/host.gen.ts";
import { ServiceError } from "../base/errors.ts";
import { createId } from "../base/ids.ts";
import { redact } from "../base/redact.ts";
import type { Connection } from "./connection.ts";
import type { RpcHub } from "./hub.ts";
import { Lines, type Line } from "./lines.ts";
import type { RpcIdentity } from "./peer.ts";
import { readyEvent, type Greeting } from "./ready.ts";

/** Standard output with the way to it kept for frames alone. */
export interface FrameOutput {
  write(text: string): void;
  /** Bytes that have not left yet. */
  buffered(): number;
  onDrain(run: () => void): void;
  /** Nobody reads any more. */
  onBroken(run: () => void): void;
  /** Resolves when everything has left, or nobody reads. */
  flushed(): Promise<void>;
}

/**
 * Takes standard output: from now on only what is written by the result gets there. What anybody else prints, by the
 * console or by the stream itself, goes to standard error.
 */
export function takeStdout(): FrameOutput {
  const { stdout, stderr } = process;
  const write = stdout.write.bind(stdout);
  stdout.write = stderr.write.bind(stderr);
  const aside = globalThis.console.error.bind(globalThis.console);
  for (const name of ["log", "info", "debug", "dir", "table"] as const) globalThis.console[name] = aside;
  const broken = Promise.withResolvers<void>();
  // The command line's own listener would leave at once; here sessions are put away first.
  stdout.removeAllListeners("error");
  stdout.on("error", () => broken.resolve());
  stdout.on("close", () => broken.resolve());
  let together = "";
  const leave = () => {
    const text = together;
    together = "";
    if (text !== "") write(text);
  };
  return {
    // A system call costs more than an answer: those that are ready at once leave in one.
    write: (text) => {
      if (together === "") process.nextTick(leave);
      together += text;
      if (together.length > TOGETHER_CHARS) leave();
    },
    buffered: () => (stdout.writableLength ?? 0) + together.length,
    onDrain: (run) => void stdout.on("drain", run),
    onBroken: (run) => void broken.promise.then(run),
    flushed: () => {
      leave();
      return Promise.race([broken.promise, new Promise<void>((resolve) => write("", () => resolve()))]);
    },
  };
}

const TOGETHER_CHARS = 65_536;

/**
 * Sends the first frame, before there are rooms to serve from. Returns the id of the connection, which
 * {@link serveStdio} carries on; until it reads, what the host sends waits in the pipe.
 */
export function greetStdio(
  output: FrameOutput,
  known: Pick<Greeting, "version" | "epoch" | "limits">,
): string {
  const connectionId = createId("con");
  send(output, readyEvent({ ...known, connectionId, transport: "stdio", nowMs: Date.now() }));
  // Now: modules that load next leave no room for it until the last of them is there.
  void output.flushed();
  return connectionId;
}

/** Tells a host that was greeted why nothing will answer it. Resolves when it was told, or nobody reads. */
export async function failStdio(output: FrameOutput, error: unknown): Promise<void> {
  const message =
    error instanceof ServiceError
      ? redact(error.message)
      : "agentd could not start. Its standard error says why.";
  send(output, { type: "error", ts: Date.now(), payload: { message, fatal: true } });
  await output.flushed();
}

function send(output: FrameOutput, event: GatewayEvent): void {
  output.write(`${JSON.stringify({ jsonrpc: "2.0", method: "event", params: event })}\n`);
}

export interface StdioOptions {
  readonly hub: RpcHub;
  readonly identity: RpcIdentity;
  readonly input: AsyncIterable<Uint8Array>;
  readonly output: FrameOutput;
  /** What {@link greetStdio} returned, when the first frame is out. */
  readonly greeted?: string;
  /** Ends the connection from our side. */
  readonly signal: AbortSignal;
}

/**
 * Serves the one connection of this process. Resolves when the input ended and every call of it was answered, when
 * nobody reads the output, or when `signal` aborts. The connection is still open then, for what the end itself says.
 */
export async function serveStdio(options: StdioOptions): Promise<void> {
  const { hub, identity, input, output, greeted, signal } = options;
  const wire = {
    send: (text: string) => output.write(`${text}\n`),
    buffered: () => output.buffered(),
    close: () => {},
  };
  const connection = hub.connect({
    wire,
    identity,
    transport: "stdio",
    isLocal: true,
    ...(greeted === undefined ? {} : { greeted }),
  });
  output.onDrain(() => connection.pump());
  output.onBroken(() => connection.gone());
  const ended = Promise.withResolvers<void>();
  for (const each of [signal, connection.signal]) each.addEventListener("abort", () => ended.resolve());
  if (signal.aborted) ended.resolve();
  await Promise.race([readAll(connection, input, hub.room.settings.limits.max_frame_bytes), ended.promise]);
}

async function readAll(
  connection: Connection,
  input: AsyncIterable<Uint8Array>,
  maxBytes: number,
): Promise<void> {
  const lines = new Lines(maxBytes);
  for await (const chunk of input) {
    for (const line of lines.push(chunk)) take(connection, line, maxBytes);
    await connection.drained();
  }
  for (const line of lines.end()) take(connection, line, maxBytes);
  await connection.settled();
}

function take(connection: Connection, line: Line, maxBytes: number): void {
  if ("text" in line) return connection.receive(line.text, line.sizeBytes);
  if (line.flaw === "utf8") return connection.garbled("This line is not UTF-8.");
  connection.refuse(`A frame has at most ${maxBytes} bytes.`, "frame_too_large");
}
