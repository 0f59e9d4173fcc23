/** A model server that streams as the last prompt says: `stream COUNT PER_SECOND`, PER_SECOND 0 for as fast as it can. */
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";

/** Text of one chunk; all are as long. */
export const CHUNK = "a word ";
const TICK_MS = 10;

export interface PacedModel extends AsyncDisposable {
  /** Ends in `/v1`. */
  readonly url: string;
  /** When the last chunk of the last answer was written, by `performance.now()`. */
  readonly lastChunkMs: number;
}

export async function startPacedModel(): Promise<PacedModel> {
  let lastChunkMs = Number.NaN;
  const server = createServer(async (request, response) => {
    const body = await json(request);
    const [, count = "1", rate = "0"] = /stream (\d+) (\d+)(?!.*stream \d)/s.exec(JSON.stringify(body)) ?? [];
    response.writeHead(200, { "content-type": "text/event-stream" });
    await stream(response, Number(count), Number(rate));
    lastChunkMs = performance.now();
    response.end(`${line({ delta: {}, finish_reason: "stop" })}data: [DONE]\n\n`);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    get lastChunkMs() {
      return lastChunkMs;
    },
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

const chunkLine = line({ delta: { content: CHUNK } });

function line(choice: object): string {
  return `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 0, model: "paced", choices: [{ index: 0, ...choice }] })}\n\n`;
}

/** By the clock, not by counting ticks: a tick that comes late sends more. */
async function stream(response: ServerResponse, count: number, perSecond: number): Promise<void> {
  const startMs = performance.now();
  let sent = 0;
  while (sent < count) {
    const due = perSecond === 0 ? count : Math.ceil(((performance.now() - startMs) / 1_000) * perSecond) + 1;
    for (; sent < Math.min(count, due); sent++) if (!response.write(chunkLine)) await once(response, "drain");
    if (sent < count) await new Promise((resolve) => setTimeout(resolve, TICK_MS));
  }
}
