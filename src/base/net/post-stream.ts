/** Posts a body and streams the answer. Touches the machine. */
import type * as Http from "node:http";
import type { ClientRequest, IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import { decodedBody, flatHeaders } from "./fetch.ts";

export interface PostOptions {
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly signal: AbortSignal;
}

export interface PostedAnswer {
  readonly status: number;
  readonly statusText: string;
  /** By lower-case name; repeated headers are joined by commas. */
  readonly headers: Readonly<Record<string, string>>;
  /** Must be read to its end or destroyed. */
  readonly body: Readable;
}

const MAX_REDIRECTS = 5;
/** Only these keep the method and the body (RFC 9110, 15.4). */
const REDIRECTS: ReadonlySet<number | undefined> = new Set([307, 308]);
/** Only these follow a redirect to another origin: vendors send keys in headers of many names. */
const HARMLESS: ReadonlySet<string> = new Set(["content-type", "user-agent", "traceparent"]);

/**
 * Posts to `url`, which the configuration names, over the connections that Node keeps open. Follows at most five
 * redirects that keep the body. Costs half the CPU time of `fetch`, whose streams pass each chunk through several
 * promises. Rejects with the system's error, or with the reason of `signal`, which also destroys the body.
 */
export async function postStream(url: string, options: PostOptions): Promise<PostedAnswer> {
  let target = new URL(url);
  let { headers } = options;
  for (let followed = 0; ; followed += 1) {
    const answer = await send(target, { ...options, headers });
    const { statusCode, statusMessage = "" } = answer;
    const { location } = answer.headers;
    if (location === undefined || !REDIRECTS.has(statusCode) || followed === MAX_REDIRECTS)
      return {
        status: statusCode ?? 0,
        statusText: statusMessage,
        headers: flatHeaders(answer),
        body: decodedBody(answer),
      };
    answer.destroy();
    const next = new URL(location, target);
    if (next.origin !== target.origin)
      headers = Object.fromEntries(Object.entries(headers).filter(([name]) => HARMLESS.has(name)));
    target = next;
  }
}

// Imported on demand: Node needs tens of milliseconds for them, which would slow every start.
let http: Promise<typeof Http> | undefined;
let https: Promise<typeof Http> | undefined;

/** A server may close a kept connection at the moment at which it is used again: such a request is sent once more. */
async function send(url: URL, options: PostOptions): Promise<IncomingMessage> {
  const { request: open } = await (url.protocol === "https:"
    ? (https ??= import("node:https") as unknown as Promise<typeof Http>)
    : (http ??= import("node:http")));
  const start = () =>
    open(url, {
      method: "POST",
      headers: { ...options.headers, "content-length": String(Buffer.byteLength(options.body)) },
    });
  const first = start();
  try {
    return await answerOf(first, options);
  } catch (error) {
    const isStale = first.reusedSocket && (error as { code?: unknown }).code === "ECONNRESET";
    if (!isStale || options.signal.aborted) throw error;
    return answerOf(start(), options);
  }
}

function answerOf(request: ClientRequest, { body, signal }: PostOptions): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    let answer: IncomingMessage | undefined;
    const abort = () => {
      reject(signal.reason);
      (answer ?? request).destroy(toError(signal.reason));
    };
    request.once("response", (response: IncomingMessage) => {
      answer = response;
      // Its reader gets the error, too; without one it must not end the process.
      response.on("error", () => {});
      resolve(response);
    });
    request.on("error", reject);
    request.once("close", () => {
      signal.removeEventListener("abort", abort);
      // An unrequested upgrade ends the connection without an error.
      reject(new Error("the connection ended without an answer"));
    });
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) abort();
    else request.end(body);
  });
}

function toError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error("the request was aborted", { cause: reason });
}
