/** A TCP proxy that cuts each connection after so many bytes of answer; for clients that must survive it. */
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

export interface CuttingProxy extends AsyncDisposable {
  readonly url: string;
  /** Connections so far. */
  readonly connections: number;
  /** Connections that were cut so far. */
  readonly cuts: number;
  /** `METHOD path` of the requests so far, the first on each connection. */
  readonly requests: readonly string[];
  /** Cuts all connections there are now. */
  cut(): void;
}

/**
 * `budgets` are the bytes that the first, second, ... connection may carry back; later ones carry all. A single number
 * holds for every connection.
 */
export async function startCuttingProxy(
  targetUrl: string,
  budgets: readonly number[] | number,
): Promise<CuttingProxy> {
  const target = new URL(targetUrl);
  const sockets = new Set<Socket>();
  const requests: string[] = [];
  let connections = 0;
  let cuts = 0;
  const server = createServer((client) => {
    const own = typeof budgets === "number" ? budgets : budgets[connections];
    connections += 1;
    const upstream = connect(Number(target.port), target.hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {}).on("close", () => sockets.delete(socket));
    }
    client.once("data", (bytes: Buffer) => requests.push(bytes.toString("latin1").split(" HTTP/")[0] ?? ""));
    client.pipe(upstream);
    let left = own ?? Number.POSITIVE_INFINITY;
    upstream.on("data", (bytes: Buffer) => {
      if (left <= 0) return;
      client.write(bytes.subarray(0, left));
      left -= bytes.length;
      if (left > 0) return;
      cuts += 1;
      upstream.destroy();
      client.end(() => client.destroy());
    });
    upstream.on("close", () => client.end());
    client.on("close", () => upstream.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    get connections() {
      return connections;
    },
    get cuts() {
      return cuts;
    },
    requests,
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
