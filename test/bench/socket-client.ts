import type { Socket } from "node:net";
import { frame, OPCODE, upgrade } from "../harness/rpc-raw.ts";

/** A WebSocket that costs next to nothing: a client that costs more than the server would measure itself. */
export class BareSocket {
  readonly #socket: Socket;
  readonly #onText: (text: string) => void;
  #got: Buffer;

  private constructor(socket: Socket, got: Uint8Array, onText: (text: string) => void) {
    this.#socket = socket;
    this.#got = Buffer.from(got);
    this.#onText = onText;
    socket.setNoDelay();
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
  }

  static async open(url: string, path: string, onText: (text: string) => void): Promise<BareSocket> {
    const { socket, status, rest } = await upgrade({ url }, path);
    if (status !== 101) throw new Error(`the upgrade was answered ${status}`);
    const opened = new BareSocket(socket, rest, onText);
    opened.#take(Buffer.alloc(0));
    return opened;
  }

  send(text: string): void {
    this.#socket.write(toFrame(text));
  }

  /** A frame that was made before. */
  write(bytes: Uint8Array): void {
    this.#socket.write(bytes);
  }

  pause(): void {
    this.#socket.pause();
  }

  close(): void {
    this.#socket.destroy();
  }

  #take(chunk: Buffer): void {
    let got = this.#got.length === 0 ? chunk : Buffer.concat([this.#got, chunk]);
    for (;;) {
      const second = got[1];
      if (second === undefined) break;
      const start = second < 126 ? 2 : second === 126 ? 4 : 10;
      if (got.length < start) break;
      const length =
        second < 126 ? second : second === 126 ? got.readUInt16BE(2) : Number(got.readBigUInt64BE(2));
      if (got.length < start + length) break;
      if (((got[0] ?? 0) & 0x0f) === OPCODE.text) this.#onText(got.toString("utf8", start, start + length));
      got = got.subarray(start + length);
    }
    this.#got = got;
  }
}

export function toFrame(text: string): Uint8Array {
  return frame(OPCODE.text, Buffer.from(text));
}
