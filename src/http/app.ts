import { H3, type H3Event, type HTTPError } from "h3";
import { ServiceError } from "../base/errors.ts";
import { errorAnswer } from "./answer.ts";
import { bindHttp, requestIdOf } from "./bind.ts";
import { getCapabilities } from "./capabilities.ts";
import { createChatCompletion } from "./chat.ts";
import { defineHttp } from "./contract.ts";
import { getDocs } from "./docs.ts";
import { getDetailedHealth } from "./health.ts";
import { getHealth, getModel, listModels } from "./meta.ts";
import { getMetrics } from "./metrics.ts";
import {
  cancelResponse,
  createResponse,
  deleteResponse,
  getResponse,
  listResponseInputItems,
} from "./responses.ts";
import type { HttpContext, HttpRoom } from "./room.ts";
import { resolveRunApproval } from "./run-approval.ts";
import { steerRun, stopRun } from "./run-control.ts";
import { createRun } from "./run-create.ts";
import { streamRunEvents } from "./run-events.ts";
import { listRuns } from "./run-list.ts";
import { RunSubscribers } from "./run-subscribers.ts";
import { getRun } from "./runs.ts";
import { createSocketTicket } from "./ticket.ts";

/** The HTTP API as an h3 app: the operations of specs/http.openapi.yaml, each bound to its handler. */
export function createHttpApp(room: HttpRoom): H3 {
  const app = new H3({
    silent: true,
    onError: (error, event) => failOutside(error, event, room),
  });
  const subscribers = new RunSubscribers(room.settings.maxSubscribersPerRun);
  const handlers = defineHttp<HttpContext>({
    createChatCompletion: (request) => createChatCompletion(request, room),
    getRun: (request) => getRun(request, room, subscribers),
    streamRunEvents: (request) => streamRunEvents(request, room, subscribers),
    listModels: () => listModels(room),
    getModel: (request) => getModel(request.path.model, room),
    getHealth: () => getHealth(room),
    getHealthV1: () => getHealth(room),
    createResponse: (request) => createResponse(request, room),
    getResponse: (request) => getResponse(request, room, subscribers),
    deleteResponse: (request) => deleteResponse(request, room),
    cancelResponse: (request) => cancelResponse(request, room),
    listResponseInputItems: (request) => listResponseInputItems(request, room),
    createRun: (request) => createRun(request, room),
    listRuns: (request) => listRuns(request, room),
    resolveRunApproval: (request) => resolveRunApproval(request, room),
    steerRun: (request) => steerRun(request, room),
    stopRun: (request) => stopRun(request, room),
    createSocketTicket: (request) => createSocketTicket(request, room),
    getCapabilities: (request) => getCapabilities(request, room),
    getDetailedHealth: (request) => getDetailedHealth(request, room),
    getMetrics: () => getMetrics(room),
    getDocs: () => getDocs(),
    getOpenApi: () => ({ status: 200, body: { ...room.openApi } }),
  });
  bindHttp(app, handlers, room);
  return app;
}

/** What went wrong before a request reached its operation: the framework's own refusals, and bugs. */
function failOutside(error: HTTPError, event: H3Event, { log }: HttpRoom): Response {
  const headers = { "x-request-id": requestIdOf(event) };
  if (error.status === 400) {
    return errorAnswer(new ServiceError("invalid_request", "The path of the request is malformed."), headers);
  }
  log.error("a request failed outside its handler", { error });
  return errorAnswer(error.cause ?? error, headers);
}
