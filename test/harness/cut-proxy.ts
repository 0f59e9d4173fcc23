/** A TCP proxy on loopback that breaks every connection off in the middle of the answer. */
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

export interface CutProxy extends AsyncDisposable {
  readonly url: string;
  /** Connections broken off until now. */
  readonly cuts: number;
}

/** Passes at most `bytes` of what the server at `target` sends on one connection, then closes both ends. */
export async function openCutProxy(target: string, bytes: number): Promise<CutProxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let cuts = 0;
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    const close = () => {
      for (const socket of [client, upstream]) {
        sockets.delete(socket);
        socket.destroy();
      }
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      // Whichever side breaks, the other learns of it by its own close.
      socket.on("error", close).on("close", close);
    }
    client.on("data", (chunk) => void upstream.write(chunk));
    let left = bytes;
    upstream.on("data", (chunk: Buffer) => {
      if (left === 0) return;
      const passed = chunk.subarray(0, left);
      left -= passed.length;
      if (left > 0) return void client.write(passed);
      cuts += 1;
      client.end(passed, close);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get cuts() {
      return cuts;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
