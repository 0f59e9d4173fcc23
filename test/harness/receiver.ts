/** A receiver of webhooks on loopback: real HTTP, and what it got. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Receiver {
  readonly url: string;
  readonly host: string;
  readonly received: readonly Received[];
  /** Resolves once so many requests have come. */
  count(atLeast: number): Promise<readonly Received[]>;
}

interface Cleanup {
  after(run: () => Promise<void>): void;
}

/** Answers as `answer` says, by default 204; ends with the test, open connections too. */
export async function openReceiver(
  t: Cleanup,
  answer: (response: ServerResponse, request: Received, count: number) => void = (response) =>
    void response.writeHead(204).end(),
): Promise<Receiver> {
  const received: Received[] = [];
  const waiting: { readonly atLeast: number; readonly resolve: () => void }[] = [];
  const server = createServer(async (request, response) => {
    // Senders that are killed leave half a request.
    const body = await text(request).catch(() => undefined);
    if (body === undefined) return;
    const { method = "", url: path = "", headers } = request;
    const got = { method, path, headers, body };
    received.push(got);
    for (const { atLeast, resolve } of waiting) if (received.length >= atLeast) resolve();
    answer(response, got, received.length);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: `http://${host}/hook`,
    host,
    received,
    async count(atLeast) {
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.push({ atLeast, resolve });
      if (received.length >= atLeast) resolve();
      await promise;
      return received;
    },
  };
}
