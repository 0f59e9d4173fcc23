import { H3, type H3Event, type HTTPError } from "h3";
import { ServiceError } from "../base/errors.ts";
import { errorAnswer } from "./edge/answer.ts";
import { bindHttp, requestIdOf } from "./edge/bind.ts";
import {
  getCapabilities,
  getDocs,
  getHealth,
  getModel,
  listModels,
  getMetrics,
  createSocketTicket,
} from "./meta/meta.ts";
import { createChatCompletion } from "./chat/chat.ts";
import { defineHttp } from "./edge/contract.ts";
import { getDetailedHealth } from "./meta/health.ts";
import {
  cancelResponse,
  createResponse,
  deleteResponse,
  getResponse,
  listResponseInputItems,
} from "./responses/responses.ts";
import type { HttpContext, HttpDeps } from "./deps.ts";
import { resolveRunApproval, steerRun, stopRun } from "./runs/control.ts";
import { createRun } from "./runs/create.ts";
import { streamRunEvents } from "./runs/events.ts";
import { getRun, listRuns, RunSubscribers } from "./runs/read.ts";

/** Creates the HTTP API: binds each operation of specs/http.openapi.yaml to its handler. */
export function createHttpApp(deps: HttpDeps): H3 {
  const app = new H3({
    silent: true,
    onError: (error, event) => failOutside(error, event, deps),
  });
  const subscribers = new RunSubscribers(deps.settings.maxSubscribersPerRun);
  const handlers = defineHttp<HttpContext>({
    createChatCompletion: (request) => createChatCompletion(request, deps),
    getRun: (request) => getRun(request, deps, subscribers),
    streamRunEvents: (request) => streamRunEvents(request, deps, subscribers),
    listModels: () => listModels(deps),
    getModel: (request) => getModel(request.path.model, deps),
    getHealth: () => getHealth(deps),
    getHealthV1: () => getHealth(deps),
    createResponse: (request) => createResponse(request, deps),
    getResponse: (request) => getResponse(request, deps, subscribers),
    deleteResponse: (request) => deleteResponse(request, deps),
    cancelResponse: (request) => cancelResponse(request, deps),
    listResponseInputItems: (request) => listResponseInputItems(request, deps),
    createRun: (request) => createRun(request, deps),
    listRuns: (request) => listRuns(request, deps),
    resolveRunApproval: (request) => resolveRunApproval(request, deps),
    steerRun: (request) => steerRun(request, deps),
    stopRun: (request) => stopRun(request, deps),
    createSocketTicket: (request) => createSocketTicket(request, deps),
    getCapabilities: (request) => getCapabilities(request, deps),
    getDetailedHealth: (request) => getDetailedHealth(request, deps),
    getMetrics: () => getMetrics(deps),
    getDocs: () => getDocs(),
    getOpenApi: () => ({ status: 200, body: { ...deps.openApi } }),
  });
  bindHttp(app, handlers, deps);
  return app;
}

/** Answers errors that occur outside an operation: requests that h3 refuses, and bugs. */
function failOutside(error: HTTPError, event: H3Event, { log }: HttpDeps): Response {
  const headers = { "x-request-id": requestIdOf(event) };
  if (error.status === 400) {
    return errorAnswer(new ServiceError("invalid_request", "The path of the request is malformed."), headers);
  }
  log.error("a request failed outside its handler", { error });
  return errorAnswer(error.cause ?? error, headers);
}
