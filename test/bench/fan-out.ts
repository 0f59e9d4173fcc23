import { setImmediate as turn } from "node:timers/promises";
import type { H3 } from "h3";
import { FastResponse } from "srvx";

/** As many events come of one step of a run. */
const PER_TURN = 6;

type Controller = ReadableStreamDefaultController<Uint8Array>;

/**
 * The least a server can do to tell many clients the same events: a set of open streams, and each frame written to all
 * of them. `frames` is a JSON list of texts; they are sent when `go` resolves, and then the streams end.
 */
export function mountFanOut(app: H3, go: () => Promise<void>, frames: string): void {
  const encoder = new TextEncoder();
  const clients = new Set<Controller>();
  let sending: Promise<void> | undefined;
  const send = async () => {
    await go();
    const all = (JSON.parse(frames) as string[]).map((frame) => encoder.encode(frame));
    for (let i = 0; i < all.length; i += PER_TURN) {
      const some = all.slice(i, i + PER_TURN);
      for (const client of clients) for (const bytes of some) client.enqueue(bytes);
      await turn();
    }
    for (const client of clients) client.close();
    clients.clear();
    sending = undefined;
  };
  app.get("/v1/runs/:id/events", () => {
    sending ??= send();
    let own: Controller;
    const stream = new ReadableStream<Uint8Array>({
      start(controller) {
        own = controller;
        controller.enqueue(encoder.encode(": connected\n\n"));
        clients.add(controller);
      },
      cancel: () => void clients.delete(own),
    });
    return new FastResponse(stream, { headers: { "content-type": "text/event-stream; charset=utf-8" } });
  });
}
