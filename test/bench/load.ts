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
  /** Throws when a body is not what it should be: an answer that came is not yet work that was done. */
  readonly check?: (body: string) => void;
}

export interface Driven {
  readonly answers: number;
  readonly seconds: number;
  /** Of each answer, from its request on. */
  readonly latenciesMs: readonly number[];
  /** Answers by status. */
  readonly byStatus: ReadonlyMap<number, number>;
}

/**
 * Keeps one request after the other on every connection for `forMs` milliseconds, and counts the answers. It talks
 * HTTP over bare sockets, because a client that costs more than the server would measure itself. A status that may not
 * come, or a body that does not pass its check, ends it.
 */
export async function drive(load: Load, forMs: number): Promise<Driven> {
  const open = await Line.open(load);
  try {
    const startMs = performance.now();
    const budget = { left: load.most ?? Number.POSITIVE_INFINITY, untilMs: startMs + forMs };
    const latenciesMs = (await Promise.all(open.map((line) => repeat(line, load, budget)))).flat();
    const seconds = (performance.now() - startMs) / 1_000;
    const statuses = [...new Set(open.flatMap(({ seen }) => [...seen.keys()]))];
    const count = (status: number) => open.reduce((sum, { seen }) => sum + (seen.get(status) ?? 0), 0);
    const byStatus = new Map(statuses.map((status) => [status, count(status)]));
    return { answers: latenciesMs.length, seconds, latenciesMs, byStatus };
  } finally {
    for (const line of open) line.close();
  }
}

const SHOWN_CHARACTERS = 2_000;

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
  /** Answers by status. */
  readonly seen: Map<number, number> = new Map();
  readonly #socket: Socket;
  readonly #statuses: readonly number[];
  readonly #check: (body: string) => void;
  #received = "";
  #waiting = Promise.withResolvers<void>();

  private constructor(socket: Socket, { statuses = [200, 202], check = () => {} }: Load) {
    this.#socket = socket;
    this.#statuses = statuses;
    this.#check = check;
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("error", (error) => this.#waiting.reject(error));
    socket.on("close", () => this.#waiting.reject(new Error("the server closed the connection")));
    this.#waiting.promise.catch(() => {});
  }

  /** As many as the load has. */
  static async open(load: Load): Promise<readonly Line[]> {
    const { url, connections } = load;
    const { hostname, port } = new URL(url);
    const sockets = Array.from({ length: connections }, () => connect(Number(port), hostname).setNoDelay());
    await Promise.all(sockets.map((socket) => once(socket, "connect")));
    return sockets.map((socket) => new Line(socket, load));
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
    this.seen.set(status, (this.seen.get(status) ?? 0) + 1);
    try {
      if (!this.#statuses.includes(status)) throw new Error("a status that may not come");
      this.#check(toBody(answer));
      this.#waiting.resolve();
    } catch (cause) {
      this.#waiting.reject(new Error(`the answer was ${answer.slice(0, SHOWN_CHARACTERS)}`, { cause }));
    }
  }
}

interface Budget {
  /** Requests that may still be sent, over all connections. */
  left: number;
  readonly untilMs: number;
}

/** Milliseconds that each answer took. */
async function repeat(line: Line, load: Load, budget: Budget): Promise<number[]> {
  const next = requestMaker(load);
  const latenciesMs: number[] = [];
  do {
    if (--budget.left < 0) break;
    const startMs = performance.now();
    await line.send(next());
    latenciesMs.push(performance.now() - startMs);
  } while (performance.now() < budget.untilMs);
  return latenciesMs;
}

function isWhole(received: string): boolean {
  const end = received.indexOf("\r\n\r\n");
  if (end < 0) return false;
  const length = /\r\ncontent-length: (\d+)/i.exec(received.slice(0, end))?.[1];
  return length === undefined
    ? received.endsWith("\r\n0\r\n\r\n")
    : received.length >= end + 4 + Number(length);
}

/** The body of a whole answer, without the sizes of its chunks. */
function toBody(answer: string): string {
  const end = answer.indexOf("\r\n\r\n");
  const rest = answer.slice(end + 4);
  if (!/\r\ntransfer-encoding: chunked/i.test(answer.slice(0, end))) return rest;
  let body = "";
  for (let at = 0; ;) {
    const sizeEnd = rest.indexOf("\r\n", at);
    const size = Number.parseInt(rest.slice(at, sizeEnd), 16);
    if (size === 0) return body;
    if (!(size > 0)) throw new Error("a chunk without a size");
    body += rest.slice(sizeEnd + 2, sizeEnd + 2 + size);
    at = sizeEnd + 2 + size + 2;
  }
}
