/** A model server on this machine that speaks OpenAI's chat completions stream, and misbehaves as a test tells it to. */
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** One thing that the server does while it answers. */
export type Piece =
  | { readonly text: string }
  | { readonly reasoning: string }
  /** A piece of a tool call: the first one of an `index` carries id and name. */
  | {
      readonly call: {
        readonly index: number;
        readonly id?: string;
        readonly name?: string;
        readonly arguments?: string;
      };
    }
  | { readonly finish: string }
  | { readonly usage: Readonly<Record<string, unknown>> }
  /** Bytes as they are, for streams that no sane server sends. */
  | { readonly raw: string }
  /** Destroys the connection. */
  | { readonly cut: true }
  /** Sends nothing more, and keeps the connection until the client leaves. */
  | { readonly hang: true };

/** A stream of pieces, closed by `[DONE]`, or an answer that is not a stream. */
export type ModelReply =
  | { readonly pieces: readonly Piece[]; readonly done?: boolean }
  | { readonly status: number; readonly headers?: Readonly<Record<string, string>>; readonly body?: string };

/** The request's body, as far as tests look at it. */
export interface ChatBody {
  readonly model: string;
  readonly messages: readonly Readonly<Record<string, unknown>>[];
  readonly tools?: readonly { readonly function: Readonly<Record<string, unknown>> }[];
  readonly [setting: string]: unknown;
}

export interface ModelRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: ChatBody;
  /** Resolves when the connection of this request is gone or its answer is out. */
  readonly closed: Promise<void>;
}

export interface ModelServer extends AsyncDisposable {
  /** Ends in `/v1`. */
  readonly baseUrl: string;
  readonly host: string;
  readonly requests: readonly ModelRequest[];
  /** Method and path of each request that no model answers. */
  readonly asked: readonly string[];
  /** Resolves when the request number `count` (from 1) has come in whole. */
  requested(count: number): Promise<ModelRequest>;
}

export type Replies = readonly ModelReply[] | ((request: ModelRequest, index: number) => ModelReply);

/** What the server answers about itself, by method and path, such as `GET /v1/models`: JSON, or how it answers. */
export type Pages = Readonly<Record<string, object | ((response: ServerResponse, body: string) => void)>>;

/**
 * Starts on a free port. A list of replies is given out in order; asking for more than there are is answered 418. Requests
 * that no model answers are not among `requests`: `pages` has the answers, and all else is answered 404.
 */
export async function startModelServer(replies: Replies, pages: Pages = {}): Promise<ModelServer> {
  const requests: ModelRequest[] = [];
  const asked: string[] = [];
  const waiting: { count: number; resolve: (request: ModelRequest) => void }[] = [];
  const next = typeof replies === "function" ? replies : (_: ModelRequest, index: number) => replies[index];
  const server = createServer(async (incoming, response) => {
    const page = `${incoming.method} ${incoming.url}`;
    if (incoming.method === "GET" || page.startsWith("POST /api/")) {
      asked.push(page);
      return answerPage(incoming, response, pages[page]);
    }
    // Clients that are killed leave half a request.
    const request = await receive(incoming, response).catch(() => undefined);
    if (!request) return;
    requests.push(request);
    for (const each of waiting.filter(({ count }) => count === requests.length)) each.resolve(request);
    await answer(response, next(request, requests.length - 1) ?? { status: 418, body: "no reply is left" });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    host,
    baseUrl: `http://${host}/v1`,
    requests,
    asked,
    requested: (count) =>
      new Promise((resolve) => {
        const there = requests[count - 1];
        if (there) resolve(there);
        else waiting.push({ count, resolve });
      }),
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** A whole answer of plain text. */
export function saying(...texts: readonly string[]): ModelReply {
  return { pieces: [...texts.map((text) => ({ text })), { finish: "stop" }] };
}

/** How OpenAI refuses a conversation that is too long. */
export const tooLong: ModelReply = {
  status: 400,
  body: JSON.stringify({
    error: {
      message: "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001.",
      type: "invalid_request_error",
      code: "context_length_exceeded",
    },
  }),
};

/** A whole answer that calls tools; the arguments come in two halves, as servers send them. */
export function calling(
  ...calls: readonly { readonly id: string; readonly name: string; readonly json: string }[]
): ModelReply {
  const pieces = calls.flatMap(({ id, name, json }, index): readonly Piece[] => {
    const half = Math.ceil(json.length / 2);
    return [
      { call: { index, id, name, arguments: "" } },
      { call: { index, arguments: json.slice(0, half) } },
      { call: { index, arguments: json.slice(half) } },
    ];
  });
  return { pieces: [...pieces, { finish: "tool_calls" }] };
}

/** Gives out the replies in order, but answers 400 to a conversation that strict providers refuse. */
export function strict(replies: readonly ModelReply[]): Replies {
  const left = [...replies];
  return ({ body }) => {
    const problem = findProblem(body.messages);
    const none = { status: 418, body: "no reply is left" };
    return problem === undefined ? (left.shift() ?? none) : { status: 400, body: problem };
  };
}

/** What OpenAI, or a stricter server of its kind, would complain of. */
export function findProblem(messages: ChatBody["messages"]): string | undefined {
  let open: string[] = [];
  for (const [index, { role, content, tool_calls: calls, tool_call_id: id }] of messages.entries()) {
    const at = `messages[${index}]`;
    if (role === "tool") {
      if (!open.includes(String(id))) return `${at} answers no open call`;
      if (typeof content !== "string") return `${at} has no text`;
      open = open.filter((other) => other !== id);
      continue;
    }
    if (open.length > 0) return `${at} comes before the answers to ${open.join(", ")}`;
    if (calls === undefined && !isContent(role, content)) return `${at} is empty`;
    for (const call of (calls ?? []) as { id: string; function: { name: string; arguments: string } }[]) {
      if (open.includes(call.id)) return `${at} uses the id ${call.id} twice`;
      if (!isObjectJson(call.function.arguments)) return `${at} has arguments that are no JSON object`;
      open.push(call.id);
    }
  }
  return open.length > 0 ? `the calls ${open.join(", ")} are not answered` : undefined;
}

/** Users may send parts; everybody may send text that is not empty. */
function isContent(role: unknown, content: unknown): boolean {
  if (role === "user" && Array.isArray(content)) return content.length > 0;
  return typeof content === "string" && content !== "";
}

function isObjectJson(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

async function receive(incoming: IncomingMessage, response: ServerResponse): Promise<ModelRequest> {
  const closed = new Promise<void>((resolve) => response.once("close", resolve));
  let text = "";
  incoming.setEncoding("utf8");
  for await (const chunk of incoming) text += chunk;
  const body = text === "" ? undefined : JSON.parse(text);
  return { path: incoming.url ?? "", headers: incoming.headers, body, closed };
}

async function answerPage(
  incoming: IncomingMessage,
  response: ServerResponse,
  page: Pages[string] | undefined,
): Promise<void> {
  let body = "";
  for await (const chunk of incoming) body += String(chunk);
  if (typeof page === "function") return page(response, body);
  response.writeHead(page ? 200 : 404, { "content-type": "application/json" });
  response.end(JSON.stringify(page ?? { error: { message: "there is no such page" } }));
}

async function answer(response: ServerResponse, reply: ModelReply): Promise<void> {
  if ("status" in reply) {
    response.writeHead(reply.status, { "content-type": "application/json", ...reply.headers });
    return void response.end(reply.body ?? "");
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const piece of reply.pieces) {
    if (response.destroyed || "hang" in piece) return;
    if ("cut" in piece) return cut(response);
    await write(response, "raw" in piece ? piece.raw : `data: ${JSON.stringify(toChunk(piece))}\n\n`);
  }
  if (reply.done !== false) response.write("data: [DONE]\n\n");
  response.end();
}

/** Bytes that are not on their way yet are lost with the connection, so each write is waited for. */
function write(response: ServerResponse, text: string): Promise<void> {
  return new Promise((resolve) => void response.write(text, () => resolve()));
}

function cut(response: ServerResponse): void {
  response.socket?.destroy();
  response.destroy();
}

function toChunk(piece: Exclude<Piece, { raw: string } | { cut: true } | { hang: true }>) {
  const base = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "test" };
  if ("usage" in piece) return { ...base, choices: [], usage: piece.usage };
  const choice = (delta: unknown, finish: string | null = null) => ({
    ...base,
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
  if ("text" in piece) return choice({ content: piece.text });
  if ("reasoning" in piece) return choice({ reasoning_content: piece.reasoning });
  if ("finish" in piece) return choice({}, piece.finish);
  const { index, id, name, arguments: json } = piece.call;
  const called = {
    ...(name === undefined ? {} : { name }),
    ...(json === undefined ? {} : { arguments: json }),
  };
  const head = id === undefined ? {} : { id, type: "function" };
  return choice({ tool_calls: [{ index, ...head, function: called }] });
}
