import { ServiceError } from "../../base/errors.ts";
import type { HttpResponse, HttpRequest } from "../edge/contract.ts";
import type { HttpContext, HttpDeps, HttpMetrics } from "../deps.ts";
import type { Capabilities } from "../../../generated/http/client/types.gen.ts";
import type { OperationMeta } from "../../../generated/http/contract.gen.ts";
import { aliases, operations } from "../../../generated/http/server.gen.ts";
import { maxHeaderLength } from "../edge/input.ts";

/** Creation time in the model list, in Unix seconds. The format requires one, and the agent has no release date. */
const CREATED = 1_735_689_600;

/** GET /v1/models: returns one model, the agent itself. */
export function listModels({ settings }: HttpDeps): HttpResponse<"listModels"> {
  return { status: 200, body: { object: "list", data: [model(settings.modelName)] } };
}

/** GET /v1/models/{model} */
export function getModel(name: string, { settings, models }: HttpDeps): HttpResponse<"getModel"> {
  if (name === settings.modelName) return { status: 200, body: model(name) };
  const isListed = models.providers.some(
    (provider) => provider.models.includes(name) || name.startsWith(`${provider.name}:`),
  );
  if (isListed && models.resolve(name)) return { status: 200, body: model(name) };
  throw new ServiceError(
    "unknown_model",
    `The model ${JSON.stringify(name)} does not exist here. The agent is ${JSON.stringify(settings.modelName)}.`,
    { param: "model" },
  );
}

/** GET /health. ServiceError `server_draining` makes load balancers send requests elsewhere. */
export function getHealth({ version, runs }: HttpDeps): HttpResponse<"getHealth"> {
  if (runs.draining) {
    throw new ServiceError("server_draining", "The server is shutting down. Send requests elsewhere.", {
      retryAfterSeconds: 1,
    });
  }
  return { status: 200, body: { status: "ok", platform: "agent", version } };
}

const model = (id: string) => ({
  id,
  object: "model" as const,
  created: CREATED,
  owned_by: "agent" as const,
});

/** How long a browser may cache the page. It changes only with the program. */
const CACHE_SECONDS = 300;

/** GET /: sends browsers to the reference. Relative, for proxies that serve this server below a path. */
export function getRoot(): HttpResponse<"getRoot"> {
  return { status: 302, headers: { location: "docs" } };
}

// The document and the page are large and rarely requested, so the first request loads them.

/** GET /openapi.json: returns the document with the address of this request. */
export async function getOpenApi({
  raw,
}: Pick<HttpRequest<"getOpenApi", HttpContext>, "raw">): Promise<HttpResponse<"getOpenApi">> {
  const { default: openApi } = await import("../../../generated/specs/http.openapi.json", {
    with: { type: "json" },
  });
  return { status: 200, body: { ...openApi, servers: [{ url: addressOf(raw) }] } };
}

/** GET /docs: returns the API reference as one page, with the address of this request in its examples. */
export async function getDocs({
  raw,
}: Pick<HttpRequest<"getDocs", HttpContext>, "raw">): Promise<HttpResponse<"getDocs">> {
  const { docsPage, docsPolicy } = await import("../../../generated/reference/docs.gen.ts");
  return {
    status: 200,
    headers: {
      "content-security-policy": docsPolicy,
      "x-content-type-options": "nosniff",
      // The page names the address of the request: a shared cache must not mix them.
      "cache-control": `private, max-age=${CACHE_SECONDS}`,
    },
    raw: docsPage.replaceAll(DEFAULT_ADDRESS, addressOf(raw)),
    contentType: "text/html; charset=utf-8",
  };
}

/** The address in the spec, and so in the page. */
const DEFAULT_ADDRESS = "http://127.0.0.1:8642";
/** A name or address with an optional port: the page must not quote anything else. */
const HOST = /^(?:[a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::\d{1,5})?$/i;

/** Returns the address to which the client sent the request, also through a proxy that ends TLS. */
function addressOf({ headers, url }: Request): string {
  const host = headers.get("host") ?? "";
  if (!HOST.test(host)) return DEFAULT_ADDRESS;
  const isTls = headers.get("x-forwarded-proto") === "https" || url.startsWith("https:");
  return `${isTls ? "https" : "http"}://${host}`;
}

/** POST /api/auth/ws-ticket */
export function createSocketTicket(
  { ctx: { identity } }: HttpRequest<"createSocketTicket", HttpContext>,
  { tickets }: HttpDeps,
): HttpResponse<"createSocketTicket"> {
  const { ticket, lifeMs } = tickets.make({
    owner: identity.owner,
    key: identity.name,
    scopes: identity.scopes,
    ...(identity.validity ? { validity: identity.validity } : {}),
  });
  return { status: 201, body: { ticket, expires_in: lifeMs / 1000 } };
}

/** GET /metrics. ServiceError `not_found` while metrics are off. */
export async function getMetrics({
  metrics,
}: {
  readonly metrics?: HttpMetrics | undefined;
}): Promise<HttpResponse<"getMetrics">> {
  if (!metrics) throw new ServiceError("not_found", "Metrics are off. Set telemetry.metrics to true.");
  return {
    status: 200,
    raw: await metrics.text(),
    contentType: "text/plain; version=0.0.4; charset=utf-8",
  };
}

const table: Readonly<Record<string, OperationMeta | undefined>> = operations;

/** GET /v1/capabilities: returns what this server can do for the caller's key. */
export function getCapabilities(
  { ctx: { identity } }: HttpRequest<"getCapabilities", HttpContext>,
  deps: HttpDeps,
): HttpResponse<"getCapabilities"> {
  const { keys, settings, version } = deps;
  const body: Capabilities = {
    object: "agent.api_server.capabilities",
    platform: "agent",
    version,
    model: settings.modelName,
    auth: {
      type: "bearer",
      required: keys.required,
      key: identity.authenticated ? identity.name : null,
      owner: identity.owner,
      scopes: [...identity.scopes],
    },
    runtime: { mode: "server_agent", tool_execution: "server", client_tools: true },
    features: { ...operationFeatures(), ...settingFeatures(deps) },
    limits: limitsFor(deps.keyLimits?.maxRunsOf(identity.name), deps),
    endpoints: endpoints(),
  };
  return { status: 200, body };
}

/** Derives features from the operations of the spec, so that a new operation counts without a change here. */
function operationFeatures() {
  const streams = (id: string) => table[id]?.responses["200"]?.sse !== undefined;
  const takes = (id: string, header: string) => table[id]?.headers?.coerce[header] !== undefined;
  const has = (id: string) => table[id] !== undefined;
  const tagged = (tag: string) => Object.values(table).some((operation) => operation?.tags.includes(tag));
  return {
    chat_completions: has("createChatCompletion"),
    chat_completions_streaming: streams("createChatCompletion"),
    responses_api: has("createResponse"),
    responses_streaming: streams("createResponse"),
    responses_background: has("createResponse") && has("cancelResponse"),
    responses_websocket: false,
    conversations: tagged("Conversations"),
    run_submission: has("createRun"),
    run_status: has("getRun"),
    run_list: has("listRuns"),
    run_events_sse: streams("streamRunEvents"),
    run_events_replay: takes("streamRunEvents", "last-event-id"),
    run_stop: has("stopRun"),
    run_steer: has("steerRun"),
    run_approval: has("resolveRunApproval"),
    control_api: has("streamEvents"),
    sessions_api: tagged("Sessions"),
    jobs_api: tagged("Jobs"),
    tool_progress: takes("createChatCompletion", "x-agent-progress"),
    model_header: takes("createChatCompletion", "x-agent-model"),
  };
}

function settingFeatures({ keys, settings }: HttpDeps) {
  return {
    webhooks: true,
    reasoning_streaming: settings.showReasoning,
    input_image: true,
    input_file: true,
    client_function_tools: true,
    structured_output: true,
    cors: settings.corsOrigins.length > 0,
    // Without keys, every caller could read every session.
    session_id_header: keys.required,
    session_key_header: keys.required,
    idempotency: { supported: true, durable: true, retention_seconds: settings.runTtlMs / 1000 },
    tool_items: settings.toolItems,
  };
}

/** `ownRuns` is the limit of the caller's key; 0: no limit. */
function limitsFor(ownRuns: number | undefined, { settings }: HttpDeps): Capabilities["limits"] {
  const runLimits = [settings.maxConcurrentRuns, ownRuns ?? 0].filter((limit) => limit > 0);
  return {
    max_body_bytes: settings.maxBodyBytes,
    max_messages: settings.maxMessages,
    max_text_bytes: settings.maxTextBytes,
    max_concurrent_runs: runLimits.length === 0 ? 0 : Math.min(...runLimits),
    max_queue_per_session: settings.maxQueuePerSession,
    max_stored_responses: settings.maxStoredResponses,
    max_subscribers_per_run: settings.maxSubscribersPerRun,
    max_reader_bytes: settings.maxReaderBytes,
    max_answer_bytes: settings.maxAnswerBytes,
    run_status_ttl_seconds: settings.runTtlMs / 1000,
    run_event_ttl_seconds: settings.eventTtlMs / 1000,
    run_event_buffer: settings.maxRunEvents,
    sse_keepalive_seconds: settings.keepaliveMs / 1000,
    session_header_max_length: maxHeaderLength("x-agent-session-id"),
    idempotency_key_max_length: maxHeaderLength("idempotency-key"),
    approval_timeout_seconds: settings.approvalTimeoutMs / 1000,
    run_timeout_seconds: settings.runTimeoutMs / 1000,
    webhook_attempts: settings.webhookAttempts,
  };
}

function endpoints(): Capabilities["endpoints"] {
  return Object.fromEntries([
    ...Object.entries(operations).map(([id, { method, route }]) => [id, { method, path: route }] as const),
    ...aliases.map(({ name, method, route }) => [name, { method, path: route }] as const),
  ]);
}
