import { connect, type Socket } from "node:net";
import { KEY } from "../harness/service.ts";

/** A client of an event stream on a bare socket, which only counts: what it costs is not the server's. */
export class Follower {
  bytes = 0;
  readonly #socket: Socket;
  readonly #connected = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<void>();

  constructor(url: string, path: string) {
    const { hostname, port, host } = new URL(url);
    this.#socket = connect(Number(port), hostname).setNoDelay();
    this.#socket.write(
      `GET ${path} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${KEY}\r\nconnection: close\r\n\r\n`,
    );
    this.#socket.once("data", (chunk: Buffer) => {
      if (chunk.toString("latin1").startsWith("HTTP/1.1 200")) this.#connected.resolve();
      else this.#connected.reject(new Error(`the answer was ${chunk.toString("latin1").slice(0, 400)}`));
    });
    this.#socket.on("data", (chunk: Buffer) => void (this.bytes += chunk.length));
    this.#socket.on("end", () => this.#ended.resolve());
    this.#socket.on("error", (error) => {
      this.#connected.reject(error);
      this.#ended.reject(error);
    });
    this.#connected.promise.catch(() => {});
    this.#ended.promise.catch(() => {});
  }

  /** Resolves with the first bytes of a stream. */
  get connected(): Promise<void> {
    return this.#connected.promise;
  }

  /** Resolves when the server has ended the stream. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** Leaves without a word. */
  cut(): void {
    this.#socket.removeAllListeners("error").on("error", () => {});
    this.#socket.resetAndDestroy();
  }
}

/** Opens so many followers, some at a time, and waits until each has its first bytes. */
export async function follow(url: string, path: string, count: number): Promise<Follower[]> {
  const all: Follower[] = [];
  while (all.length < count) {
    const some = Array.from({ length: Math.min(100, count - all.length) }, () => new Follower(url, path));
    await Promise.all(some.map((follower) => follower.connected));
    all.push(...some);
  }
  return all;
}
