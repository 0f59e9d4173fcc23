/**
 * Asks the APIs of model providers, and model servers on this machine, for their models and the context of a model.
 * Every request is bounded in time and size, and nothing here rejects.
 */
import { connect } from "node:net";
import { isRecord } from "../base/data.ts";
import type { ProviderType } from "../config/providers.ts";

/** The endpoint of a provider. `apiKey` and `headers` are secrets. */
export interface ModelEndpoint {
  readonly type: ProviderType;
  readonly baseUrl?: string;
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What a provider answered to the request for its models. */
export type Listing =
  | {
      readonly status: "listed";
      readonly models: readonly string[];
      /** Context in tokens, of the models for which the list has it. */
      readonly contexts: ReadonlyMap<string, number>;
    }
  /** slow: it did not answer in time. unreachable: no connection. other: not a list of models. */
  | { readonly status: "slow" | "unreachable" | "other" }
  | { readonly status: "refused"; readonly httpStatus: number };

export interface AskOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

export interface ContextOptions extends AskOptions {
  /** Waits this long until a server that loads models on demand has loaded the model. Absent: does not load it. */
  readonly loadMs?: number | undefined;
}

const MAX_BODY_BYTES = 8_388_608;
const MAX_LISTED = 2_000;

const DEFAULT_URLS: Readonly<Record<ProviderType, string | undefined>> = {
  openai: "https://api.openai.com/v1",
  anthropic: "https://api.anthropic.com/v1",
  google: "https://generativelanguage.googleapis.com/v1beta",
  openrouter: "https://openrouter.ai/api/v1",
  openai_compatible: undefined,
};

/** Requests the models of a provider. */
export async function listModels(endpoint: ModelEndpoint, options: AskOptions): Promise<Listing> {
  const base = endpoint.baseUrl ?? DEFAULT_URLS[endpoint.type];
  if (base === undefined) return { status: "unreachable" };
  // Anthropic pages its list; the others ignore the parameter or have no such one.
  const query = endpoint.type === "anthropic" ? "?limit=1000" : "";
  const url = `${base.replace(/\/+$/, "")}/models${query}`;
  const answer = await requestJson(url, { headers: headersOf(endpoint) }, options);
  if (answer.status === "refused" && ![401, 403].includes(answer.httpStatus)) return { status: "other" };
  return answer.status === "ok" ? toListing(answer.body, endpoint.type) : answer;
}

function headersOf({ type, apiKey, headers = {} }: ModelEndpoint): Record<string, string> {
  if (apiKey === undefined) return { ...headers };
  switch (type) {
    case "anthropic":
      return { "x-api-key": apiKey, "anthropic-version": "2023-06-01", ...headers };
    case "google":
      return { "x-goog-api-key": apiKey, ...headers };
    default:
      return { authorization: `Bearer ${apiKey}`, ...headers };
  }
}

/** Google lists `models` with `name`, all others `data` with `id`. */
function toListing(body: unknown, type: ProviderType): Listing {
  const isGoogle = type === "google";
  const entries = isRecord(body) ? body[isGoogle ? "models" : "data"] : undefined;
  if (!Array.isArray(entries)) return { status: "other" };
  const contexts = new Map<string, number>();
  const models: string[] = [];
  for (const entry of entries.slice(0, MAX_LISTED).filter(isRecord)) {
    const name = entry[isGoogle ? "name" : "id"];
    if (typeof name !== "string" || name === "") continue;
    const id = isGoogle ? name.replace(/^models\//, "") : name;
    models.push(id);
    const context = LISTED_CONTEXT.map((key) => toTokens(entry[key])).find((tokens) => tokens !== undefined);
    if (context !== undefined) contexts.set(id, context);
  }
  return { status: "listed", models, contexts };
}

/** Fields with the context of a model, in the lists of vLLM and SGLang, OpenRouter, Groq, Mistral, Google. */
const LISTED_CONTEXT = [
  "max_model_len",
  "context_length",
  "context_window",
  "max_context_length",
  "inputTokenLimit",
];
const MAX_TOKENS = 100_000_000;

function toTokens(value: unknown): number | undefined {
  return typeof value === "number" && Number.isInteger(value) && value > 0 && value <= MAX_TOKENS
    ? value
    : undefined;
}

// The servers on this machine

export interface LocalServer {
  readonly name: string;
  readonly baseUrl: string;
  readonly models: readonly string[];
}

export interface LocalServers {
  readonly servers: readonly LocalServer[];
  /** `host:port` of open ports that did not answer in time. */
  readonly unanswered: readonly string[];
}

const CONNECT_TIMEOUT_MS = 300;
/** A server that loads a model or computes an answer is slow, but it is there. */
const ANSWER_TIMEOUT_MS = 5_000;
const MAX_LOCAL_MODELS = 100;
/**
 * Asks the servers of `candidates` (names and base URLs) in parallel. A closed port costs no time; an open one gets 5 s to
 * answer.
 */
export async function detectLocalServers(
  candidates: Readonly<Record<string, string>>,
  { timeoutMs = ANSWER_TIMEOUT_MS }: { readonly timeoutMs?: number } = {},
): Promise<LocalServers> {
  const probes = await Promise.all(
    Object.entries(candidates).map(([name, baseUrl]) => probe(name, baseUrl, timeoutMs)),
  );
  return {
    servers: probes.filter((found) => typeof found === "object"),
    unanswered: probes.filter((found) => typeof found === "string"),
  };
}

/** Returns the address of an open port that did not answer. */
async function probe(
  name: string,
  baseUrl: string,
  timeoutMs: number,
): Promise<LocalServer | string | undefined> {
  const address = URL.parse(baseUrl);
  if (!address) return undefined;
  // Usually no server runs, and loading the modules behind `fetch` takes longer than the rest of a start.
  const { hostname, protocol, port, host } = address;
  const usualPort = protocol === "https:" ? 443 : 80;
  const open = await isListening({ hostname, port: Number(port) || usualPort }, CONNECT_TIMEOUT_MS);
  if (!open) return undefined;
  const listing = await listModels({ type: "openai_compatible", baseUrl }, { timeoutMs });
  if (listing.status === "slow") return host;
  if (listing.status !== "listed") return undefined;
  return { name, baseUrl, models: listing.models.slice(0, MAX_LOCAL_MODELS) };
}

// The context of a model

export interface ReportedContext {
  readonly tokens: number;
  /** True: what the server gives to a model that it has not loaded yet, unless its own settings say otherwise. */
  readonly isAssumed: boolean;
}

/** Requests the context that a server gives to a model. Undefined when it does not say. */
export async function askContext(
  endpoint: ModelEndpoint & { readonly baseUrl: string },
  model: string,
  options: ContextOptions,
): Promise<ReportedContext | undefined> {
  const listing = await listModels(endpoint, options);
  if (listing.status === "slow" || listing.status === "unreachable") return undefined;
  const listed = listing.status === "listed" ? listing.contexts.get(model) : undefined;
  // Other servers would get requests that they do not know.
  if (listed !== undefined || !isLocal(endpoint.baseUrl)) return reported(listed);
  const server = { root: endpoint.baseUrl.replace(/\/v1\/?$/, ""), headers: headersOf(endpoint) };
  const answers = await Promise.all([
    askOllama(server, model, options),
    askLlamaCpp(server, options).then(reported),
    askLmStudio(server, model, options).then(reported),
  ]);
  return answers.find((context) => context !== undefined);
}

function reported(tokens: number | undefined): ReportedContext | undefined {
  return tokens === undefined ? undefined : { tokens, isAssumed: false };
}

interface NativeServer {
  readonly root: string;
  readonly headers: Record<string, string>;
}

/** Ollama gives this context to models for which nothing else is set, on machines with little memory. */
const OLLAMA_TOKENS = 4_096;

/** The context of the loaded model; else what its file sets; else the default, but not more than the model has. */
async function askOllama(
  server: NativeServer,
  model: string,
  { loadMs, ...options }: ContextOptions,
): Promise<ReportedContext | undefined> {
  const { root, headers } = server;
  const named = { method: "POST", headers, body: JSON.stringify({ model }) };
  const [shown, inUse] = await Promise.all([
    requestJson(`${root}/api/show`, named, options),
    loadedContext(server, model, options),
  ]);
  if (inUse !== undefined) return reported(inUse);
  if (shown.status !== "ok" || !isRecord(shown.body) || !isRecord(shown.body["model_info"])) return undefined;
  if (loadMs !== undefined) {
    // A request without a prompt loads the model. Its first prompt would, too, and only then is the context known.
    await requestJson(`${root}/api/generate`, named, { ...options, timeoutMs: loadMs });
    const loaded = await loadedContext(server, model, options);
    if (loaded !== undefined) return reported(loaded);
  }
  const { model_info: info, parameters } = shown.body;
  const entry = Object.entries(info as object).find(([key]) => key.endsWith(".context_length"));
  const longest = toTokens(entry?.[1]);
  const [, set] = String(parameters ?? "").match(/^num_ctx\s+(\d{1,9})$/m) ?? [];
  const tokens = toTokens(Number(set)) ?? OLLAMA_TOKENS;
  return { tokens: Math.min(tokens, longest ?? tokens), isAssumed: set === undefined };
}

async function loadedContext({ root, headers }: NativeServer, model: string, options: AskOptions) {
  const running = await requestJson(`${root}/api/ps`, { headers }, options);
  const names = [model, `${model}:latest`];
  const loaded = listOf(running, "models").find(({ name }) => names.includes(String(name)));
  return toTokens(loaded?.["context_length"]);
}

async function askLlamaCpp(
  { root, headers }: NativeServer,
  options: AskOptions,
): Promise<number | undefined> {
  const answer = await requestJson(`${root}/props`, { headers }, options);
  const body = answer.status === "ok" && isRecord(answer.body) ? answer.body : {};
  const settings = body["default_generation_settings"];
  return isRecord(settings) ? toTokens(settings["n_ctx"]) : undefined;
}

/** A model that is not loaded gets a context that only LM Studio knows. */
async function askLmStudio(
  { root, headers }: NativeServer,
  model: string,
  options: AskOptions,
): Promise<number | undefined> {
  const answer = await requestJson(`${root}/api/v0/models`, { headers }, options);
  const found = listOf(answer, "data").find(({ id }) => id === model);
  return toTokens(found?.["loaded_context_length"]);
}

function listOf(answer: JsonAnswer, key: string): readonly Readonly<Record<string, unknown>>[] {
  const list = answer.status === "ok" && isRecord(answer.body) ? answer.body[key] : undefined;
  return Array.isArray(list) ? list.slice(0, MAX_LISTED).filter(isRecord) : [];
}

/** Returns whether an address is on this machine. */
export function isLocal(baseUrl: string): boolean {
  const hostname = URL.parse(baseUrl)?.hostname ?? "";
  return hostname === "localhost" || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

type JsonAnswer =
  | { readonly status: "ok"; readonly body: unknown }
  | { readonly status: "slow" | "unreachable" | "other" }
  | { readonly status: "refused"; readonly httpStatus: number };

async function requestJson(
  url: string,
  init: { readonly method?: string; readonly headers: Record<string, string>; readonly body?: string },
  { timeoutMs, signal }: AskOptions,
): Promise<JsonAnswer> {
  const late = AbortSignal.timeout(timeoutMs);
  try {
    const response = await fetch(url, {
      ...init,
      signal: signal ? AbortSignal.any([late, signal]) : late,
      redirect: "error",
    });
    if (response.ok) return { status: "ok", body: JSON.parse(await boundedText(response)) };
    await response.body?.cancel();
    return { status: "refused", httpStatus: response.status };
  } catch (error) {
    if (late.aborted) return { status: "slow" };
    return { status: isUnreachable(error) ? "unreachable" : "other" };
  }
}

/** A server that hangs up, or answers with something else, was reached. */
function isUnreachable(error: unknown): boolean {
  const { cause } = error as { readonly cause?: { readonly code?: unknown } };
  const text = `${String(error)} ${String(cause)} ${String(cause?.code)}`;
  return /refused|ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|TIMEOUT|dns error|certificate/i.test(
    text,
  );
}

async function boundedText(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > MAX_BODY_BYTES) throw new RangeError("the answer is too long");
    chunks.push(chunk);
  }
  return new Blob(chunks as BlobPart[]).text();
}

/** Resolves to whether the address accepts a connection within `timeoutMs`; the connection is closed at once. */
function isListening(
  { hostname, port }: { readonly hostname: string; readonly port: number },
  timeoutMs: number,
): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port });
    const done = (found: boolean) => {
      socket.destroy();
      resolve(found);
    };
    socket.setTimeout(timeoutMs, () => done(false));
    socket.once("connect", () => done(true));
    socket.once("error", () => done(false));
  });
}
