import { once } from "node:events";
import { connect, type Socket } from "node:net";

export interface Load {
  readonly url: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly connections: number;
}

/**
 * Keeps one request after the other on every connection for `forMs` milliseconds, and counts the answers. It talks
 * HTTP over bare sockets, because a client that costs more than the server would measure itself. Anything but a 200 or a
 * 202 ends it.
 */
export async function drive(load: Load, forMs: number): Promise<{ answers: number; seconds: number }> {
  const { hostname, port, host } = new URL(load.url);
  const head = { host, "content-length": String(Buffer.byteLength(load.body)), ...load.headers };
  const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}\r\n`);
  const request = Buffer.from(`POST ${load.path} HTTP/1.1\r\n${lines.join("")}\r\n${load.body}`);
  const sockets = Array.from({ length: load.connections }, () =>
    connect(Number(port), hostname).setNoDelay(),
  );
  await Promise.all(sockets.map((socket) => once(socket, "connect")));
  const startMs = performance.now();
  const counts = await Promise.all(sockets.map((socket) => repeat(socket, request, startMs + forMs)));
  const seconds = (performance.now() - startMs) / 1_000;
  for (const socket of sockets) socket.destroy();
  return { answers: counts.reduce((sum, count) => sum + count, 0), seconds };
}

function repeat(socket: Socket, request: Buffer, untilMs: number): Promise<number> {
  return new Promise((resolve, reject) => {
    let count = 0;
    let received = "";
    socket.on("data", (chunk) => {
      received += chunk.toString("latin1");
      if (!isWhole(received)) return;
      if (!/^HTTP\/1\.1 20[02]/.test(received)) return reject(new Error(`the answer was ${received}`));
      received = "";
      count++;
      if (performance.now() < untilMs) socket.write(request);
      else resolve(count);
    });
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("the server closed the connection")));
    socket.write(request);
  });
}

function isWhole(received: string): boolean {
  const end = received.indexOf("\r\n\r\n");
  if (end < 0) return false;
  const length = /\r\ncontent-length: (\d+)/i.exec(received)?.[1];
  return length === undefined
    ? received.endsWith("\r\n0\r\n\r\n")
    : received.length >= end + 4 + Number(length);
}
