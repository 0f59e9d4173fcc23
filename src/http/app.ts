import { H3, type H3Event, type HTTPError } from "h3";
import { ServiceError } from "../base/errors.ts";
import { errorAnswer } from "./edge/answer.ts";
import { bindHttp, requestIdOf } from "./edge/bind.ts";
import { getCapabilities } from "./meta/capabilities.ts";
import { createChatCompletion } from "./chat/chat.ts";
import { defineHttp } from "./edge/contract.ts";
import { getDocs } from "./meta/docs.ts";
import { getDetailedHealth } from "./meta/health.ts";
import { getHealth, getModel, listModels } from "./meta/meta.ts";
import { getMetrics } from "./meta/metrics.ts";
import {
  cancelResponse,
  createResponse,
  deleteResponse,
  getResponse,
  listResponseInputItems,
} from "./responses/responses.ts";
import type { HttpContext, HttpRoom } from "./deps.ts";
import { resolveRunApproval } from "./runs/approval.ts";
import { steerRun, stopRun } from "./runs/control.ts";
import { createRun } from "./runs/create.ts";
import { streamRunEvents } from "./runs/events.ts";
import { listRuns } from "./runs/list.ts";
import { RunSubscribers } from "./runs/subscribers.ts";
import { getRun } from "./runs/runs.ts";
import { createSocketTicket } from "./meta/ticket.ts";

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
