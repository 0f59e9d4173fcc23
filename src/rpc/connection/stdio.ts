/** The gateway on standard input and output: one JSON value per line. */
import type { GatewayEvent } from "../../../generated/gateway/host.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import type { FrameOutput } from "../../base/system/frame-output.ts";
import { createId, Lines, type Line } from "../../base/text.ts";
import { redact } from "../../base/observe.ts";
import type { Connection } from "./connection.ts";
import type { RpcHub } from "../events/hub.ts";
import type { RpcIdentity } from "../deps.ts";
import { readyEvent, type Greeting } from "./ready.ts";

/**
 * Sends the first frame before the modules are built. Returns the connection id for {@link serveStdio}. Until
 * then, the host's input waits in the pipe.
 */
export function greetStdio(
  output: FrameOutput,
  known: Pick<Greeting, "version" | "epoch" | "limits" | "shellExec">,
): string {
  const connectionId = createId("con");
  send(output, readyEvent({ ...known, connectionId, transport: "stdio", nowMs: Date.now() }));
  // Flush now: the modules that load next block the event loop until the last one is there.
  void output.flushed();
  return connectionId;
}

/** Reports to a greeted host why it gets no answers. Resolves when the frame is sent, or when nothing reads it. */
export async function failStdio(output: FrameOutput, error: unknown): Promise<void> {
  const message =
    error instanceof ServiceError ? redact(error.message) : "agentd could not start. See its standard error.";
  send(output, { type: "error", ts: Date.now(), payload: { message, fatal: true } });
  await output.flushed();
}

function send(output: FrameOutput, event: GatewayEvent): void {
  output.write(`${JSON.stringify({ jsonrpc: "2.0", method: "event", params: event })}\n`);
}

export interface StdioOptions {
  readonly hub: RpcHub;
  readonly identity: RpcIdentity;
  readonly input: NodeJS.ReadableStream;
  readonly output: FrameOutput;
  /** Absolute; the folder in which the host was started. */
  readonly cwd?: string;
  /** The result of {@link greetStdio}, when the first frame is sent. */
  readonly greeted?: string;
  /** Ends the connection from this side. */
  readonly signal: AbortSignal;
}

/**
 * Serves the one connection of this process. Resolves when the input has ended and every call is answered, when
 * the output is broken, or when `signal` aborts. The connection stays open for final events.
 */
export async function serveStdio(options: StdioOptions): Promise<void> {
  const { hub, identity, input, output, cwd, greeted, signal } = options;
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
    ...(cwd === undefined ? {} : { cwd }),
    ...(greeted === undefined ? {} : { greeted }),
  });
  output.onDrain(() => connection.pump());
  output.onBroken(() => connection.gone());
  const ended = Promise.withResolvers<void>();
  for (const each of [signal, connection.signal]) each.addEventListener("abort", () => ended.resolve());
  if (signal.aborted) ended.resolve();
  await Promise.race([readAll(connection, input, hub.deps.settings.limits.max_frame_bytes), ended.promise]);
}

/** Resolves when the input has ended and every call is answered. Rejects when the input fails. */
async function readAll(
  connection: Connection,
  input: NodeJS.ReadableStream,
  maxBytes: number,
): Promise<void> {
  const lines = new Lines(maxBytes);
  // Events: an iterator over the input costs a call as much as its answer.
  input.on("data", (chunk: Uint8Array) => {
    for (const line of lines.push(chunk)) take(connection, line, maxBytes);
    if (connection.canTake) return;
    input.pause();
    void connection.drained().then(() => input.resume());
  });
  await new Promise((resolve, reject) => input.on("close", resolve).on("end", resolve).on("error", reject));
  for (const line of lines.end()) take(connection, line, maxBytes);
  await connection.settled();
}

function take(connection: Connection, line: Line, maxBytes: number): void {
  if ("text" in line) return connection.receive(line.text, line.sizeBytes);
  if (line.problem === "utf8") return connection.garbled("This line is not UTF-8.");
  connection.refuse(`A frame may have at most ${maxBytes} bytes.`, "frame_too_large");
}
