/** HTTP requests as fetch does not let one make them: any header, a body that never ends. */
import { request, type IncomingMessage } from "node:http";
import type { TestService } from "./service.ts";

export interface WireRequest {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** The body is not ended: the server waits for more. */
  readonly keepOpen?: boolean;
}

/** The whole answer, as fetch would give it. */
export function send({ url }: Pick<TestService, "url">, from: WireRequest): Promise<Response> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const { method, path, headers = {} } = from;
    const outgoing = request({ hostname, port, method, path, headers, agent: false }, (incoming) => {
      readAll(incoming)
        .then((text) => {
          outgoing.destroy();
          const { statusCode: status = 0 } = incoming;
          resolve(new Response(status === 204 ? null : text, { status, headers: headersOf(incoming) }));
        })
        .catch(reject);
    });
    outgoing.on("error", reject);
    if (from.body !== undefined) outgoing.write(from.body);
    if (from.keepOpen) outgoing.flushHeaders();
    else outgoing.end();
  });
}

async function readAll(incoming: IncomingMessage): Promise<string> {
  let text = "";
  incoming.setEncoding("utf8");
  for await (const piece of incoming) text += piece;
  return text;
}

function headersOf({ headers }: IncomingMessage): Headers {
  const set = new Headers();
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) set.set(name, String(value));
  return set;
}
