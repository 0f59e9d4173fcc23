import { H3, type H3Event, type HTTPError } from "h3";
import { ServiceError } from "../base/errors.ts";
import { errorAnswer, rawAnswer, type Headers } from "./edge/answer.ts";
import {
  getCapabilities,
  getDocs,
  getHealth,
  getModel,
  getOpenApi,
  getRoot,
  listModels,
  getMetrics,
  createSocketTicket,
} from "./meta/meta.ts";
import { LogRing } from "./admin/log-ring.ts";
import { createChatCompletion } from "./chat.ts";
import { FeedStreams, followFeed, streamEvents } from "./control/feed.ts";
import { answerQuestion, getQuestion, listQuestions } from "./control/questions/questions.ts";
import {
  deleteSession,
  getSession,
  listSessionMessages,
  listSessions,
  updateSession,
} from "./control/sessions/sessions.ts";
import { Console } from "./console/console.ts";
import type { HttpDeps } from "./deps.ts";
import { Cors } from "./edge/access.ts";
import { type Edge, type Handler, answering, checkSource, requestIdOf } from "./edge/serve.ts";
import { createLocalCalls, createPerform, type LocalApi } from "./local.ts";
import { getDetailedHealth } from "./meta/health.ts";
import { type Handlers, onDemand, type Shared } from "./on-demand.ts";
import {
  cancelResponse,
  createResponse,
  deleteResponse,
  getResponse,
  listResponseInputItems,
} from "./responses/responses.ts";
import { resolveRunApproval, steerRun, stopRun } from "./runs/control.ts";
import { createRun } from "./runs/create.ts";
import { streamRunEvents } from "./runs/events.ts";
import { getRun, getRunTrace, listRuns, RunSubscribers } from "./runs/read.ts";
import { aliases, operations, type OperationId } from "../../generated/http/server.gen.ts";
import type { Alias } from "./aliases.ts";

// Exported here too: the start then loads one file less.
export { joinKeys } from "./edge/access.ts";

/** The HTTP API, and the same operations for callers inside the process. */
export interface HttpApi extends LocalApi {
  readonly app: H3;
}

/** Creates the HTTP API: binds each operation of specs/http.openapi.yaml to its handler. */
export function createHttpApi(deps: HttpDeps): HttpApi {
  const app = new H3({
    silent: true,
    onError: (error, event) => failOutside(error, event, deps),
  });
  const streams = new FeedStreams();
  const logs = new LogRing();
  deps.log.copyTo?.(logs.write);
  const subscribers = new RunSubscribers(deps.settings.maxSubscribersPerRun);
  const shared: Shared = { subscribers, streams, logs, console: new Console(deps) };
  bindHttp(app, deps, shared);
  return {
    app,
    ...createLocalCalls((request) => app.fetch(request)),
    perform: createPerform(handlers, deps, shared),
    follow: (filter, caller, signal) => followFeed({ filter, caller, signal }, deps, streams),
  };
}

const handlers: Handlers = {
  createChatCompletion,
  getRun,
  getRunTrace,
  streamRunEvents,
  listModels: (_request, deps) => listModels(deps),
  getModel: ({ path }, deps) => getModel(path.model, deps),
  getHealth: (_request, deps) => getHealth(deps),
  getHealthV1: (_request, deps) => getHealth(deps),
  createResponse,
  getResponse,
  deleteResponse,
  cancelResponse,
  listResponseInputItems,
  createRun,
  listRuns,
  resolveRunApproval,
  steerRun,
  stopRun,
  listSessions,
  getSession,
  updateSession,
  deleteSession,
  listSessionMessages,
  listQuestions,
  getQuestion,
  answerQuestion,
  streamEvents,
  createSocketTicket,
  getCapabilities,
  getDetailedHealth,
  getMetrics: (_request, deps) => getMetrics(deps),
  getRoot,
  getDocs,
  getOpenApi,
  ...onDemand,
};

/** Answers errors that occur outside an operation: requests that h3 refuses, and bugs. */
function failOutside(error: HTTPError, event: H3Event, { log }: HttpDeps): Response {
  const headers = { "x-request-id": requestIdOf(event) };
  if (error.status === 400) {
    return errorAnswer(new ServiceError("invalid_request", "The path of the request is malformed."), headers);
  }
  log.error("a request failed outside its handler", { error });
  return errorAnswer(error.cause ?? error, headers);
}

/** Mounts every operation of the spec. Other methods of a known path answer 405, all other paths 404. */
function bindHttp(app: H3, deps: HttpDeps, shared: Shared): void {
  const cors = new Cors({ origins: deps.settings.corsOrigins, requiresKey: deps.keys.required });
  const { console } = shared;
  const edge: Edge = { deps, cors, shared, console };
  const fallback = { requestIdOf, answer: (event: H3Event) => refuse(event, edge, wrongPath) };
  const methods = new Map<string, string[]>();
  for (const id of Object.keys(operations) as OperationId[]) {
    const operation = operations[id];
    const route = operation.route.replace(/\{([^}]+)\}/g, ":$1");
    const names = operation.method === "GET" && !operation.sse ? ["GET", "HEAD"] : [operation.method];
    methods.set(route, [...(methods.get(route) ?? []), ...names]);
    const bound = { ...edge, id, operation, handler: handlers[id] as Handler };
    const serve = answering(bound);
    const answer =
      id === "getRoot"
        ? async (event: H3Event) => (await console.root(event, fallback)) ?? serve(event)
        : serve;
    for (const name of names) app.on(name as "GET", route, answer);
  }
  console.mount(app, fallback);
  for (const alias of aliases) {
    const route = alias.route.replace(/\{([^}]+)\}/g, ":$1");
    methods.set(route, [...(methods.get(route) ?? []), alias.method]);
    app.on(alias.method, route, (event) => serveAlias(event, alias, { app, edge }));
  }
  for (const route of UNSUPPORTED_ROUTES) app.all(route, (event) => refuse(event, edge, wrongPath));
  for (const [route, names] of methods) app.all(route, (event) => refuse(event, edge, wrongMethod(names)));
  app.all("/**", (event) => refuse(event, edge, wrongPath));
}

/** Answers in the format of another agent. Its module loads with the first such request. */
async function serveAlias(
  event: H3Event,
  alias: Alias,
  { app, edge: { deps, cors } }: { readonly app: H3; readonly edge: Edge },
): Promise<Response> {
  try {
    const { answerAlias } = await import("./aliases.ts");
    return await answerAlias(event, alias, { deps, call: (request) => app.fetch(request) });
  } catch (error) {
    const headers = { "x-request-id": requestIdOf(event), ...cors.headers(event.req.headers) };
    return errorAnswer(error, headers);
  }
}

/** Paths of OpenAI's API that would otherwise match a path of this one. */
const UNSUPPORTED_ROUTES = ["/v1/responses/compact", "/v1/responses/input_tokens"];

/** Answers requests that match no operation: browser preflights, and errors. */
function refuse(event: H3Event, edge: Edge, refusal: (event: H3Event) => Refusal): Response {
  const base = { "x-request-id": requestIdOf(event), ...edge.cors.headers(event.req.headers) };
  try {
    checkSource(event, edge);
  } catch (thrown) {
    return errorAnswer(thrown, base);
  }
  const preflight = edge.cors.preflight(event.req.method, event.req.headers);
  if (preflight) return rawAnswer(204, null, { ...base, ...preflight });
  const { error, headers } = refusal(event);
  return errorAnswer(error, { ...base, ...headers });
}

interface Refusal {
  readonly error: ServiceError;
  readonly headers?: Headers;
}

function wrongMethod(methods: readonly string[]): (event: H3Event) => Refusal {
  const allow = methods.join(", ");
  return (event) => ({
    error: new ServiceError("method_not_allowed", `This path supports ${allow}, not ${event.req.method}.`),
    headers: { allow },
  });
}

function wrongPath(): Refusal {
  const what = "This path does not exist. GET /openapi.json lists all paths.";
  return { error: new ServiceError("not_found", what) };
}
