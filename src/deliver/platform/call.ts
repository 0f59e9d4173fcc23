import { createClient } from "../../../generated/http/client/client/index.ts";
import { DeliveryClient } from "../../../generated/delivery/client/sdk.gen.ts";
import { schemas, type SchemaTypes } from "../../../generated/delivery/schemas.gen.ts";
import type { Clock } from "../../base/time.ts";
import {
  FetchFailedError,
  guardedFetch,
  type GuardedResponse,
  UnresolvedNameError,
  parseRetryAfter,
} from "../../base/net/fetch.ts";
import { SchemaSet } from "../../base/schema.ts";
import { type SendOptions, type SendOutcome, type LoadedFile, cleanText } from "../target.ts";

export type SendFailure = Exclude<SendOutcome, { readonly status: "delivered" }>;

/** The response of a platform, whatever its status. */
export interface PlatformAnswer<Body> {
  readonly kind: "answer";
  readonly status: number;
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string>>;
  /** Undefined when the body does not match the platform's schema. */
  readonly body: Body | undefined;
  /** First characters of the body, for error messages. */
  readonly text: string;
  /** Value of `Retry-After`, milliseconds. */
  readonly retryAfterMs: number | undefined;
}

/** The outcome of a request without a response. */
export interface NoAnswer {
  readonly kind: "none";
  readonly outcome: SendFailure;
}

interface CallerOptions {
  /** The platform as people write it. */
  readonly title: string;
  /** Without a trailing slash. It may be a private address: the operator configured it. */
  readonly baseUrl: string;
  readonly version: string;
  readonly clock: Clock;
  /** Default 30 s. */
  readonly timeoutMs?: number;
}

/** Makes one request through the generated client and validates the response against `schema`. */
export type Call = <Name extends keyof SchemaTypes>(
  schema: Name,
  operation: (client: DeliveryClient) => Promise<unknown>,
  options: Pick<SendOptions, "signal" | "span">,
) => Promise<PlatformAnswer<SchemaTypes[Name]> | NoAnswer>;

const TIMEOUT_MS = 30_000;
const MAX_ANSWER_BYTES = 262_144;
const SHOWN_CHARACTERS = 200;
const validators = new SchemaSet(schemas);

/**
 * Creates the function for requests to one platform. Redirects are not followed: they could carry credentials to other
 * hosts. Private addresses are allowed, because the operator configured them.
 */
export function createCall(caller: CallerOptions): Call {
  const problem = findProblem(caller);
  return async (schema, operation, options) => {
    if (problem) return { kind: "none", outcome: problem };
    const sent: { isMade?: true; answer?: Answer } = {};
    const client = createClient({
      baseUrl: caller.baseUrl.replace(/\/+$/, ""),
      headers: { "user-agent": `agentd/${caller.version}` },
      throwOnError: true,
      // The client builds the request. The response is read here, because its body may be anything.
      fetch: async (request) => {
        sent.isMade = true;
        sent.answer = await refusalIn(transmit(request as Request, caller, options));
        return new Response(null, { status: 204 });
      },
    });
    try {
      await operation(new DeliveryClient({ client }));
    } catch (error) {
      options.signal.throwIfAborted();
      return { kind: "none", outcome: sent.isMade ? failureOf(error, caller) : unmade(error, caller) };
    }
    if (!sent.answer) throw new TypeError(`${caller.title}: the operation made no request.`);
    options.span.set({ "http.response.status_code": sent.answer.status });
    return toAnswer(schema, sent.answer, caller.clock.now());
  };
}

/** Posts the bytes of a file to an address that the platform named for it. */
export type Upload = (
  url: string,
  file: Pick<LoadedFile, "bytes" | "type">,
  options: Pick<SendOptions, "signal" | "span">,
) => Promise<SendOutcome>;

/** Creates the function for uploads of one platform. `delivered` means that the platform has the bytes. */
export function createUpload(caller: CallerOptions): Upload {
  const { title, baseUrl, version, timeoutMs = TIMEOUT_MS } = caller;
  return async (url, { bytes, type }, { signal }) => {
    try {
      const { status } = await guardedFetch(url, {
        method: "POST",
        headers: { "content-type": type, "user-agent": `agentd/${version}` },
        body: bytes,
        timeoutMs,
        maxBytes: MAX_ANSWER_BYTES,
        maxRedirects: 0,
        allowedPrivateHosts: [URL.parse(baseUrl)?.host ?? ""],
        signal,
      });
      if (status < 300) return { status: "delivered" };
      const error = `${title} answered ${status} to the upload of a file.`;
      return { status: status >= 500 || status === 429 ? "retry" : "permanent", error };
    } catch (error) {
      signal.throwIfAborted();
      return failureOf(error, caller);
    }
  };
}

type Answer = Pick<GuardedResponse, "status" | "headers" | "body">;

/** Returns the response. When an error response breaks off, its status is enough: the platform accepted nothing. */
async function refusalIn(answer: Promise<Answer>): Promise<Answer> {
  try {
    return await answer;
  } catch (error) {
    const head = error instanceof FetchFailedError ? error.head : undefined;
    if (!head || head.status < 400) throw error;
    return { ...head, body: new Uint8Array() };
  }
}

async function transmit(
  request: Request,
  { timeoutMs = TIMEOUT_MS }: CallerOptions,
  { signal }: Pick<SendOptions, "signal">,
): Promise<GuardedResponse> {
  const body = new Uint8Array(await request.arrayBuffer());
  return guardedFetch(request.url, {
    method: request.method,
    headers: Object.fromEntries(request.headers),
    ...(body.length > 0 ? { body } : {}),
    timeoutMs,
    maxBytes: MAX_ANSWER_BYTES,
    maxRedirects: 0,
    allowedPrivateHosts: [new URL(request.url).host],
    signal,
  });
}

function toAnswer<Name extends keyof SchemaTypes>(
  schema: Name,
  { status, headers, body: bytes }: Answer,
  nowMs: number,
): PlatformAnswer<SchemaTypes[Name]> {
  const whole = new TextDecoder().decode(bytes);
  const body = parse(whole);
  const fits = body !== undefined && validators.checkNamed(schema, body) === undefined;
  return {
    kind: "answer",
    status,
    headers,
    body: fits ? (body as SchemaTypes[Name]) : undefined,
    text: whole.slice(0, SHOWN_CHARACTERS),
    retryAfterMs: parseRetryAfter(headers["retry-after"], nowMs),
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Checks the base URL before any request: later errors would contain the whole URL with its secrets. */
function findProblem({ title, baseUrl }: CallerOptions): SendFailure | undefined {
  const url = URL.parse(baseUrl);
  if (!url || !/^https?:$/.test(url.protocol)) {
    return { status: "permanent", error: `${title}: the base_url is not a URL. Correct it.` };
  }
  if (url.username === "" && url.password === "" && url.search === "" && url.hash === "") return undefined;
  return {
    status: "permanent",
    error: `${title}: the base_url must not have a user, a query or a fragment.`,
  };
}

/** A header with invalid characters throws an error that shows its value. */
function unmade(error: unknown, { title }: CallerOptions): SendFailure {
  if (!(error instanceof TypeError)) throw error;
  return {
    status: "permanent",
    error: `${title}: cannot build the request. Check the credentials for invalid characters such as line breaks.`,
  };
}

function failureOf(error: unknown, { title }: CallerOptions): SendFailure {
  if (error instanceof UnresolvedNameError) {
    return { status: "retry", error: `${title}: ${error.message} Check the network and the base_url.` };
  }
  if (!(error instanceof FetchFailedError)) throw error;
  if (error.reason === "url") return { status: "permanent", error: `${title}: ${error.message}` };
  if (!error.isSent) return { status: "retry", error: `${title}: ${error.message}` };
  const baseError = `${title}: ${error.message}`;
  return { status: "unknown", error: `${baseError} The message may have arrived.`, baseError };
}

export interface OutcomeWords {
  /** The platform as people write it. */
  readonly title: string;
  /** Name of the platform in the configuration. */
  readonly name: string;
  /** The platform's own error message. */
  readonly reason?: string | undefined;
  /** Settings key of the platform's URL; default base_url. */
  readonly addressKey?: string;
}

const MAX_REASON_CHARACTERS = 200;
/** A proxy timed out waiting for the platform: RFC 9110 and Cloudflare. */
const GATEWAY_TIMEOUTS: ReadonlySet<number> = new Set([504, 524]);

const MAY_HAVE_ARRIVED = "The message may have arrived.";

/** Returns the outcome of an unsuccessful response, including a 2xx whose body does not match the schema. */
export function outcomeOfAnswer(answer: PlatformAnswer<unknown>, words: OutcomeWords): SendFailure {
  const { status, retryAfterMs } = answer;
  const { title, name, addressKey = "base_url" } = words;
  const baseError = `${title} answered ${status}${reasonOf(words)}.`;
  if (status < 300) return unclear(answer, words);
  if (status < 400) {
    return {
      status: "permanent",
      error: `${title} redirects to another address (${status}). Set platforms.${name}.${addressKey} to the final address of its API.`,
    };
  }
  if (status === 429) return throttled(baseError, retryAfterMs);
  if (GATEWAY_TIMEOUTS.has(status)) {
    return { status: "unknown", error: `${baseError} ${MAY_HAVE_ARRIVED}`, baseError };
  }
  if (status === 408 || status === 425 || status >= 500) {
    return {
      status: "retry",
      error: baseError,
      ...(retryAfterMs === undefined ? {} : { afterMs: retryAfterMs }),
    };
  }
  return { status: "permanent", error: `${baseError}${hintOf(status, `platforms.${name}`, addressKey)}` };
}

/** Returns the response as one sentence, for platforms whose own error codes say more than the status. */
export function summarize({ status }: PlatformAnswer<unknown>, words: OutcomeWords): string {
  return `${words.title} answered ${status}${reasonOf(words)}.`;
}

/** Returns a throttled outcome. Without `afterMs` the dispatcher decides how long to wait. */
export function throttled(error: string, afterMs: number | undefined): SendFailure {
  return { status: "retry", error, isThrottled: true, ...(afterMs === undefined ? {} : { afterMs }) };
}

/** An HTML page does not come from the API. Any other unexpected body may be a truncated response. */
function unclear(
  { status, headers, text }: PlatformAnswer<unknown>,
  { title, name, addressKey = "base_url" }: OutcomeWords,
): SendFailure {
  const isPage = /\bhtml\b/i.test(headers["content-type"] ?? "") || /^\s*<(!doctype|html)\b/i.test(text);
  if (isPage) {
    return {
      status: "retry",
      error: `${title} answered ${status} with a web page. Check for a proxy in between, and check platforms.${name}.${addressKey}.`,
    };
  }
  const baseError = `${title} answered ${status}, with an unexpected body.`;
  return { status: "unknown", error: `${baseError} ${MAY_HAVE_ARRIVED}`, baseError };
}

function hintOf(status: number, settings: string, addressKey: string): string {
  if (status === 401) return ` Check the credentials of ${settings}.`;
  if (status === 403) return " Check whether the sender may write there.";
  if (status === 404) return ` Check the chat and ${settings}.${addressKey}.`;
  return "";
}

/** Redacts before truncating: half of a truncated secret would not be recognized. */
function reasonOf({ reason = "" }: OutcomeWords): string {
  const line = cleanText(reason).replace(/\s+/g, " ").trim().replace(/\.$/, "");
  return line === "" ? "" : `: ${line.slice(0, MAX_REASON_CHARACTERS)}`;
}
