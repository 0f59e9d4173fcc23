/** A WebSocket made by hand: what it sends may be split, broken or against the rules, and it need not read. */
import { connect, type Socket } from "node:net";
import { RpcHost } from "./rpc.ts";

export const OPCODE = { more: 0, text: 1, binary: 2, close: 8, ping: 9 } as const;

/** The answer to a request for an upgrade. */
export interface Upgraded {
  readonly socket: Socket;
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  /** What came behind the head. */
  readonly rest: Uint8Array;
}

/** Asks for an upgrade. `headers` come on top of those of a WebSocket. */
export async function upgrade(
  service: { readonly url: string },
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Upgraded> {
  const { hostname, port, host } = new URL(service.url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  const all = {
    host,
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`GET ${path} HTTP/1.1\r\n${lines.join("")}\r\n`);
  let got = Buffer.alloc(0);
  for (;;) {
    got = Buffer.concat([got, await nextChunk(socket)]);
    const end = got.indexOf("\r\n\r\n");
    if (end < 0) continue;
    const [first = "", ...fields] = got.subarray(0, end).toString("latin1").split("\r\n");
    const pairs = fields.map((field) => field.split(/: ?(.*)/s, 2) as [string, string]);
    return {
      socket,
      status: Number(first.split(" ")[1]),
      headers: new Map(pairs.map(([name, value]) => [name.toLowerCase(), value])),
      rest: got.subarray(end + 4),
    };
  }
}

/** The whole body of a refusal. */
export async function bodyOf({ socket, headers, rest }: Upgraded): Promise<string> {
  let body = Buffer.from(rest);
  while (body.length < Number(headers.get("content-length"))) {
    body = Buffer.concat([body, await nextChunk(socket)]);
  }
  socket.destroy();
  return body.toString();
}

export interface RawHost extends RpcHost {
  /** Sends a frame, masked with zeros. */
  write(opcode: number, payload: string | Uint8Array, options?: { readonly isLast?: boolean }): void;
  /** Bytes as they are. */
  writeBytes(bytes: Uint8Array): void;
  pause(): void;
  resume(): void;
}

/** Connects and waits for nothing; what the gateway sends is validated as on every host. */
export async function connectRaw(service: { readonly url: string }, path: string): Promise<RawHost> {
  const upgraded = await upgrade(service, path);
  if (upgraded.status !== 101) throw new Error(`the upgrade was answered ${upgraded.status}`);
  const { socket } = upgraded;
  const host = new RpcHost();
  const closed = Promise.withResolvers<number | null>();
  let code: number | null = null;
  const frames = new FrameReader((opcode, payload) => {
    if (opcode === OPCODE.text) host.take(payload.toString());
    if (opcode !== OPCODE.close) return;
    code = payload.length >= 2 ? payload.readUInt16BE(0) : null;
    socket.end();
  });
  frames.push(upgraded.rest);
  socket.on("data", (chunk: Uint8Array) => frames.push(chunk));
  socket.on("close", () => {
    host.ended(code);
    closed.resolve(code);
  });
  const write: RawHost["write"] = (opcode, payload, { isLast = true } = {}) =>
    void socket.write(frame(opcode, Buffer.from(payload as Uint8Array), isLast));
  host.wire = {
    send: (text) => write(typeof text === "string" ? OPCODE.text : OPCODE.binary, text),
    close: () => socket.destroy(),
    closed: closed.promise,
  };
  return Object.assign(host, {
    write,
    writeBytes: (bytes: Uint8Array) => void socket.write(bytes),
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
  });
}

/** A mask of zeros leaves the payload as it is. */
export function frame(opcode: number, payload: Uint8Array, isLast = true): Uint8Array {
  const length = payload.length;
  const extra = length < 126 ? 0 : length < 65_536 ? 2 : 8;
  const head = Buffer.alloc(2 + extra + 4);
  head[0] = (isLast ? 0x80 : 0) | opcode;
  head[1] = 0x80 | (extra === 0 ? length : extra === 2 ? 126 : 127);
  if (extra === 2) head.writeUInt16BE(length, 2);
  if (extra === 8) head.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([head, payload]);
}

/** Frames of a server, which are not masked. Fragments are joined. */
class FrameReader {
  readonly #take: (opcode: number, payload: Buffer) => void;
  #got: Buffer = Buffer.alloc(0);
  #parts: { readonly opcode: number; readonly payload: Buffer }[] = [];

  constructor(take: (opcode: number, payload: Buffer) => void) {
    this.#take = take;
  }

  push(chunk: Uint8Array): void {
    this.#got = Buffer.concat([this.#got, chunk]);
    for (let size = this.#one(); size > 0; size = this.#one()) this.#got = this.#got.subarray(size);
  }

  /** Takes the first frame, if it is whole; its size, else 0. */
  #one(): number {
    const got = this.#got;
    if (got.length < 2) return 0;
    const short = (got[1] ?? 0) & 0x7f;
    const start = short < 126 ? 2 : short === 126 ? 4 : 10;
    if (got.length < start) return 0;
    const length = short < 126 ? short : short === 126 ? got.readUInt16BE(2) : Number(got.readBigUInt64BE(2));
    if (got.length < start + length) return 0;
    const first = got[0] ?? 0;
    const opcode = first & 0x0f;
    const payload = Buffer.from(got.subarray(start, start + length));
    if (opcode >= OPCODE.close) this.#take(opcode, payload);
    else {
      this.#parts.push({ opcode, payload });
      if ((first & 0x80) !== 0) this.#join();
    }
    return start + length;
  }

  #join(): void {
    const parts = this.#parts;
    this.#parts = [];
    this.#take(parts[0]?.opcode ?? OPCODE.text, Buffer.concat(parts.map(({ payload }) => payload)));
  }
}

function nextChunk(socket: Socket): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const gone = () => reject(new Error("the server closed the connection"));
    socket.once("close", gone);
    socket.once("data", (chunk: Uint8Array) => {
      socket.off("close", gone);
      resolve(chunk);
    });
  });
}
