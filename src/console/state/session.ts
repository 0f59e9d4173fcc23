/** Who is signed in, and requests in their name. */
import type { ConsoleSession } from "../../client/http.ts";
import { AgentConnectionError, send } from "../../client/request.ts";

/** The half of the sign-in that the page keeps; the other half is a cookie that no script can read. */
const TOKEN_KEY = "agentd.console.token";
const SESSION_KEY = "agentd.console.session";
const TOKEN_HEADER = "x-agentd-console";

/** Returns the page's half of the sign-in; undefined without a sign-in. */
export function consoleToken(): string | undefined {
  return localStorage.getItem(TOKEN_KEY) ?? undefined;
}

/** Keeps what a sign-in has answered for the pages that follow. */
export function keepSignIn(session: ConsoleSession): void {
  localStorage.setItem(TOKEN_KEY, session.token ?? "");
  keepSession(session);
}

export function forgetSignIn(): void {
  localStorage.removeItem(TOKEN_KEY);
  localStorage.removeItem(SESSION_KEY);
}

/** Keeps who is signed in, so that the next page opens with what the key may do. */
export function keepSession(session: ConsoleSession): void {
  localStorage.setItem(SESSION_KEY, JSON.stringify({ ...session, token: null }));
}

/** Returns who was signed in when a page last asked. */
export function lastSession(): ConsoleSession | undefined {
  try {
    const kept = JSON.parse(localStorage.getItem(SESSION_KEY) ?? "{}") as Partial<ConsoleSession>;
    return Array.isArray(kept.scopes) ? (kept as ConsoleSession) : undefined;
  } catch {
    // Not written by this console.
    return undefined;
  }
}

/** A JSON operation as the generated types describe it. */
interface Operation {
  readonly url: string;
  readonly path?: object | undefined;
  readonly query?: object | undefined;
  readonly body?: unknown;
}

type Sent<Data extends Operation> = Omit<Data, "headers"> & {
  readonly method?: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  /** Called with the headers of the answer. */
  readonly onHeaders?: (headers: Headers) => void;
};

/**
 * Sends one operation and resolves to its JSON. Rejects with AgentApiError, AgentConnectionError, or the signal's reason.
 * Without a sign-in it leaves for the sign-in page.
 *
 * ```ts
 * const runs = await request<ListRunsData, RunList>({ url: "/v1/runs", query: { limit: 50 } });
 * ```
 */
export async function request<Data extends Operation, Result>(sent: Sent<Data>): Promise<Result> {
  const { url, path, query, body, ...rest }: Sent<Operation> = sent;
  const { method = body === undefined ? "GET" : "POST", headers = {}, signal, onHeaders } = rest;
  const isPost = method === "POST";
  const name = randomName();
  // With If-Match, a repetition would be refused because of the change that it repeats.
  const isRepeatable = isPost || (method === "PATCH" && headers["if-match"] === undefined);
  const answer = () =>
    answerTo<Result>(addressOf(url, path, query), {
      method,
      headers: {
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(isPost ? { "idempotency-key": name } : {}),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal ? { signal } : {}),
      onHeaders,
    });
  if (method === "GET") return read(answer);
  return isRepeatable ? untilAnswered(answer, signal) : answer();
}

const reads = new Set<Promise<unknown>>();
/** While a person signs out. */
let hold: Promise<void> | undefined;

async function read<Result>(answer: () => Promise<Result>): Promise<Result> {
  await hold;
  const sent = answer();
  reads.add(sent);
  try {
    return await sent;
  } finally {
    reads.delete(sent);
  }
}

/** How long signing out waits for reads: one of a slow page may be cut by it. */
const READS_END_MS = 1_000;

/**
 * Signs out by `end`, after which reads are refused: waits for those under way, and holds new ones back. They go on if
 * `end` fails.
 */
export async function withoutReads(end: () => Promise<unknown>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  hold = promise;
  try {
    const late = new Promise((ended) => setTimeout(ended, READS_END_MS));
    await Promise.race([Promise.allSettled(reads), late]);
    await end();
  } catch (error) {
    hold = undefined;
    resolve();
    throw error;
  }
}

interface Call extends RequestInit {
  readonly onHeaders: Sent<Operation>["onHeaders"];
}

/** Resolves to the JSON of an answer; undefined for an empty one. */
async function answerTo<Result>(address: string, { onHeaders, ...init }: Call): Promise<Result> {
  const response = await send({ baseUrl: location.origin, fetch: signedFetch }, address, init);
  onHeaders?.(response.headers);
  const text = await response.text().catch((error: unknown) => {
    throw init.signal?.aborted === true ? error : new AgentConnectionError(error);
  });
  return (text === "" ? undefined : JSON.parse(text)) as Result;
}

/** How long what a person did waits for a gateway that is away, and how often it is tried. */
const RESEND_FOR_MS = 120_000;
const RESEND_EVERY_MS = 500;

const writes = new Set<Promise<unknown>>();

/** Resolves when no change is under way: a page that left now would drop what a person did. */
export async function writesDone(): Promise<void> {
  while (writes.size > 0) {
    await Promise.allSettled(writes);
    // What follows from an answer, such as another address, comes first.
    await new Promise((resolve) => setTimeout(resolve));
  }
}

/**
 * Sends a change until the gateway answers: it may have been made before the connection broke, and by the idempotency key
 * it is made once.
 */
async function untilAnswered<Result>(
  answer: () => Promise<Result>,
  signal: AbortSignal | undefined,
): Promise<Result> {
  const sent = retry(answer, signal);
  writes.add(sent);
  try {
    return await sent;
  } finally {
    writes.delete(sent);
  }
}

async function retry<Result>(
  answer: () => Promise<Result>,
  signal: AbortSignal | undefined,
): Promise<Result> {
  const until = Date.now() + RESEND_FOR_MS;
  for (;;) {
    try {
      return await answer();
    } catch (error) {
      const isOver = Date.now() > until || signal?.aborted === true;
      if (!(error instanceof AgentConnectionError) || isOver) throw error;
      await new Promise((resolve) => setTimeout(resolve, RESEND_EVERY_MS));
    }
  }
}

/** Fills in the parts of a path in braces, and appends the query; a list becomes one parameter with commas. */
export function addressOf(url: string, path: object = {}, query: object = {}): string {
  const filled = url.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String((path as Record<string, unknown>)[name])),
  );
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "") continue;
    params.set(name, Array.isArray(value) ? value.join(",") : String(value));
  }
  return params.size === 0 ? filled : `${filled}?${params}`;
}

/** `fetch` in the name of who is signed in. */
export async function signedFetch(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const token = consoleToken();
  if (token !== undefined) headers.set(TOKEN_HEADER, token);
  const response = await fetch(input, { ...init, headers, credentials: "same-origin" });
  if (response.status === 401) leaveForSignIn();
  return response;
}

let isLeaving = false;

/** Leaves for the sign-in page, which comes back here. Drafts are kept in the browser. */
export function leaveForSignIn(): void {
  // Requests that are refused together would each begin again.
  if (isLeaving || location.pathname === "/login") return;
  isLeaving = true;
  const next = location.pathname + location.search;
  location.replace(next === "/" ? "/login" : `/login?next=${encodeURIComponent(next)}`);
}

/** Pages outside of a secure context have no `crypto.randomUUID`. */
export function randomName(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join("");
}

/** Returns what an error says. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
