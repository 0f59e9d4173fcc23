/** Faults that are planted into a server: a proxy in front of it changes requests or answers. */
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

export interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Changes what passes; what it leaves out stays as it is. */
export interface Fault {
  readonly name: string;
  /** Part of the title of the scenario that finds it. */
  readonly finder: string;
  readonly request?: (request: {
    readonly path: string;
    readonly headers: Readonly<Record<string, string>>;
  }) => { readonly path?: string; readonly headers?: Readonly<Record<string, string>> };
  /** Answers in the place of the server. */
  readonly instead?: (request: {
    readonly method: string;
    readonly path: string;
  }) => Partial<Exchange> | undefined;
  readonly answer?: (exchange: Exchange) => Partial<Exchange>;
}

const events = /\/events(\?|$)/;
const isChat = ({ path, method }: Exchange) => path === "/v1/chat/completions" && method === "POST";
const without = (headers: Readonly<Record<string, string>>, ...names: readonly string[]) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)));
const changed = (exchange: Exchange, change: (body: string) => string): Partial<Exchange> => ({
  body: change(exchange.body),
});

export const httpFaults: readonly Fault[] = [
  {
    name: "a request without a key is 403",
    finder: "a request without a key is 401",
    answer: ({ status }) => (status === 401 ? { status: 403 } : {}),
  },
  {
    name: "a refusal does not say how to authenticate",
    finder: "a request without a key is 401",
    answer: ({ headers }) => ({ headers: without(headers, "www-authenticate") }),
  },
  {
    name: "answers have no request id",
    finder: "health answers",
    answer: ({ headers }) => ({ headers: without(headers, "x-request-id") }),
  },
  {
    name: "an unknown method is 404",
    finder: "an unknown method is 405",
    answer: ({ status }) => (status === 405 ? { status: 404 } : {}),
  },
  {
    name: "errors are plain text",
    finder: "a body that is not JSON is 400",
    answer: ({ status, headers, body }) =>
      status < 400 ? {} : { headers: { ...headers, "content-type": "text/plain" }, body: body.slice(0, 20) },
  },
  {
    name: "an event of a run is lost",
    finder: "numbered from 1 without gaps",
    answer: (exchange) =>
      events.test(exchange.path) ? changed(exchange, (body) => body.replace(/id: 3\n(?:.+\n)+\n/, "")) : {},
  },
  {
    name: "an event of a run comes twice",
    finder: "numbered from 1 without gaps",
    answer: (exchange) =>
      events.test(exchange.path)
        ? changed(exchange, (body) => body.replace(/id: 3\n(?:.+\n)+\n/, (frame) => frame + frame))
        : {},
  },
  {
    name: "a run has two ends",
    finder: "end with one final event",
    answer: (exchange) =>
      events.test(exchange.path)
        ? changed(exchange, (body) =>
            body.replace(/(?:.+\n)*data: .*run\.completed.*\n\n/, (frame) => frame + frame),
          )
        : {},
  },
  {
    name: "a resumed stream begins at the beginning",
    finder: "are the same when they are resumed",
    request: ({ path, headers }) => ({
      path: path.replace(/\?after=\d+/, ""),
      headers: without(headers, "last-event-id"),
    }),
  },
  {
    name: "Idempotency-Key is ignored",
    finder: "with one Idempotency-Key is one run",
    request: ({ headers }) => ({ headers: without(headers, "idempotency-key") }),
  },
  {
    name: "a streamed chat has no end mark",
    finder: "ends with the finish reason and [DONE]",
    answer: (exchange) =>
      isChat(exchange) ? changed(exchange, (body) => body.replace("data: [DONE]\n\n", "")) : {},
  },
  {
    name: "a streamed chat loses a word",
    finder: "the text of a streamed chat",
    answer: (exchange) =>
      isChat(exchange)
        ? changed(exchange, (body) => body.replace(/"delta":\{"content":"[^"]{3}/, '"delta":{"content":"'))
        : {},
  },
  {
    name: "the chunks of a chat have different ids",
    finder: "has one id",
    answer: (exchange) => {
      let count = 0;
      const renamed = (body: string) =>
        body.replaceAll(/"id":"chatcmpl_/g, () => `"id":"chatcmpl_${(count += 1)}`);
      return isChat(exchange) ? changed(exchange, renamed) : {};
    },
  },
  {
    name: "the usage does not add up",
    finder: "a usage that adds up",
    answer: (exchange) =>
      changed(exchange, (body) => body.replace(/"total_tokens":(\d+)/, '"total_tokens":1$1')),
  },
  {
    name: "the events of a response have a gap",
    finder: "from created to completed",
    answer: (exchange) =>
      exchange.path === "/v1/responses"
        ? changed(exchange, (body) => body.replace('"sequence_number":2', '"sequence_number":1002'))
        : {},
  },
  {
    name: "a deleted response stays",
    finder: "and deleted",
    instead: ({ method, path }) => {
      const id = /^\/v1\/responses\/([^/]+)$/.exec(path)?.[1];
      if (method !== "DELETE" || id === undefined) return undefined;
      return { body: JSON.stringify({ id, object: "response", deleted: true }) };
    },
  },
  {
    name: "pages repeat",
    finder: "pages of runs",
    request: ({ path }) => ({ path: path.replace(/&after=[^&]+/, "") }),
  },
  {
    name: "a field has the wrong type",
    finder: "how it ended",
    answer: (exchange) =>
      changed(exchange, (body) => body.replaceAll(/"created_at":(\d+)/g, '"created_at":"$1"')),
  },
  {
    name: "a required field is missing",
    finder: "how it ended",
    answer: (exchange) => changed(exchange, (body) => body.replaceAll(/"session_id":"[^"]+",/g, "")),
  },
  {
    name: "an unknown run is accepted",
    finder: "a run that does not exist",
    answer: ({ status, path }) => (status === 404 && path.endsWith("/stop") ? { status: 200 } : {}),
  },
];

export const webhookFaults: readonly Fault[] = [
  {
    name: "signatures are not checked",
    finder: "without a signature",
    answer: ({ status }) => (status === 401 ? { status: 202, body: '{"status":"accepted"}' } : {}),
  },
  {
    name: "a repetition is accepted again",
    finder: "sent again",
    answer: ({ status, body }) =>
      status === 200 && body.includes("duplicate") ? { status: 202, body: '{"status":"accepted"}' } : {},
  },
  {
    name: "GET is answered",
    finder: "GET is 405",
    answer: ({ method }) => (method === "GET" ? { status: 200 } : {}),
  },
];

/** Serves `upstream` with a fault. */
export async function plant(upstream: string, fault: Fault) {
  const server = createServer((incoming, outgoing) => {
    void (async () => {
      const { method = "GET", url = "/" } = incoming;
      const sent = { path: url, headers: plainHeaders(incoming.headers), method };
      const body = await buffer(incoming);
      const { path = url, headers = sent.headers } = fault.request?.(sent) ?? {};
      const own = fault.instead?.({ method, path });
      const exchange = own
        ? { status: 200, headers: JSON_HEADERS, body: "", ...own }
        : await exchangeWith(`${upstream}${path}`, { method, headers, body });
      const answer = { ...exchange, ...fault.answer?.({ ...exchange, method, path }) };
      outgoing.writeHead(answer.status, answer.headers).end(answer.body);
    })().catch(() => outgoing.destroy());
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => void server.close(resolve));
    },
  };
}

const JSON_HEADERS = { "content-type": "application/json", "x-request-id": "req_planted" };

async function exchangeWith(
  url: string,
  request: {
    readonly method: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: Buffer;
  },
) {
  const { method, headers, body } = request;
  const hasBody = method !== "GET" && method !== "HEAD";
  const response = await fetch(url, { method, headers, ...(hasBody ? { body: new Uint8Array(body) } : {}) });
  const text = await response.text();
  return { status: response.status, headers: plainHeaders(Object.fromEntries(response.headers)), body: text };
}

/** Without those that hold for one connection. */
function plainHeaders(
  headers: IncomingHttpHeaders | Readonly<Record<string, string>>,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      typeof value !== "string" ||
      /^(?:host|connection|content-length|transfer-encoding|keep-alive)$/.test(name)
        ? []
        : [[name, value]],
    ),
  );
}
