import { once } from "node:events";
import { connect, type Socket } from "node:net";

export interface Load {
  readonly url: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly connections: number;
  /** A header that is another with every request. */
  readonly idHeader?: string;
  /** Requests that are sent at most; the time may end it before. */
  readonly most?: number;
  /** Statuses that may come; default 200 and 202. */
  readonly statuses?: readonly number[];
}

/**
 * Keeps one request after the other on every connection for `forMs` milliseconds, and counts the answers. It talks
 * HTTP over bare sockets, because a client that costs more than the server would measure itself. A status that may not
 * come ends it.
 */
export async function drive(load: Load, forMs: number): Promise<{ answers: number; seconds: number }> {
  const open = await Line.open(load);
  const startMs = performance.now();
  const budget = { left: load.most ?? Number.POSITIVE_INFINITY, untilMs: startMs + forMs };
  const counts = await Promise.all(open.map((line) => repeat(line, load, budget)));
  const seconds = (performance.now() - startMs) / 1_000;
  for (const line of open) line.close();
  return { answers: counts.reduce((sum, count) => sum + count, 0), seconds };
}

let lastId = 0;

/** The bytes of the next request. */
export function requestMaker(load: Load): () => Buffer {
  const { url, path, headers, body, idHeader } = load;
  const { host } = new URL(url);
  const head = { host, "content-length": String(Buffer.byteLength(body)), ...headers };
  const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}\r\n`);
  const first = `POST ${path} HTTP/1.1\r\n${lines.join("")}`;
  const bytes = Buffer.from(`${first}\r\n${body}`);
  if (idHeader === undefined) return () => bytes;
  const run = Date.now().toString(36);
  return () => Buffer.from(`${first}${idHeader}: ${run}-${++lastId}\r\n\r\n${body}`);
}

/** A connection with one request under way at a time. */
export class Line {
  readonly #socket: Socket;
  readonly #statuses: readonly number[];
  #received = "";
  #waiting = Promise.withResolvers<void>();

  private constructor(socket: Socket, statuses: readonly number[]) {
    this.#socket = socket;
    this.#statuses = statuses;
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("error", (error) => this.#waiting.reject(error));
    socket.on("close", () => this.#waiting.reject(new Error("the server closed the connection")));
    this.#waiting.promise.catch(() => {});
  }

  /** As many as the load has. */
  static async open({ url, connections, statuses = [200, 202] }: Load): Promise<readonly Line[]> {
    const { hostname, port } = new URL(url);
    const sockets = Array.from({ length: connections }, () => connect(Number(port), hostname).setNoDelay());
    await Promise.all(sockets.map((socket) => once(socket, "connect")));
    return sockets.map((socket) => new Line(socket, statuses));
  }

  /** Resolves when the answer is there. */
  send(request: Buffer): Promise<void> {
    this.#waiting = Promise.withResolvers<void>();
    this.#socket.write(request);
    return this.#waiting.promise;
  }

  close(): void {
    this.#waiting.promise.catch(() => {});
    this.#socket.destroy();
  }

  #take(chunk: Buffer): void {
    this.#received += chunk.toString("latin1");
    if (!isWhole(this.#received)) return;
    const answer = this.#received;
    this.#received = "";
    const status = Number(answer.slice("HTTP/1.1 ".length, "HTTP/1.1 200".length));
    if (this.#statuses.includes(status)) this.#waiting.resolve();
    else this.#waiting.reject(new Error(`the answer was ${answer}`));
  }
}

interface Budget {
  /** Requests that may still be sent, over all connections. */
  left: number;
  readonly untilMs: number;
}

async function repeat(line: Line, load: Load, budget: Budget): Promise<number> {
  const next = requestMaker(load);
  let count = 0;
  do {
    if (--budget.left < 0) break;
    await line.send(next());
    count++;
  } while (performance.now() < budget.untilMs);
  return count;
}

function isWhole(received: string): boolean {
  const end = received.indexOf("\r\n\r\n");
  if (end < 0) return false;
  const length = /\r\ncontent-length: (\d+)/i.exec(received)?.[1];
  return length === undefined
    ? received.endsWith("\r\n0\r\n\r\n")
    : received.length >= end + 4 + Number(length);
}
