import { H3 } from "h3";
import { ServiceError } from "../base/errors.ts";
import { errorAnswer } from "./answer.ts";
import { bindHttp } from "./bind.ts";
import { createChatCompletion } from "./chat.ts";
import { defineHttp } from "./contract.ts";
import { getHealth, getModel, listModels } from "./meta.ts";
import type { HttpContext, HttpRoom } from "./room.ts";
import { getRun, RunStreams } from "./runs.ts";

function unbuilt(): never {
  throw new ServiceError("not_found", "This operation is not built yet.");
}

/** The HTTP API as an h3 app: the operations of specs/http.openapi.yaml, each bound to its handler. */
export function createHttpApp(room: HttpRoom): H3 {
  const app = new H3({
    silent: true,
    onError: (error) => {
      room.log.error("a request failed outside its handler", { error });
      return errorAnswer(error.cause ?? error, {});
    },
  });
  const streams = new RunStreams(room);
  const handlers = defineHttp<HttpContext>({
    createChatCompletion: (request) => createChatCompletion(request, room),
    getRun: (request) => getRun(request, room),
    streamRunEvents: (request) => streams.open(request),
    listModels: () => listModels(room),
    getModel: (request) => getModel(request.path.model, room),
    getHealth: () => getHealth(room),
    getHealthV1: () => getHealth(room),
    createResponse: unbuilt,
    getResponse: unbuilt,
    deleteResponse: unbuilt,
    cancelResponse: unbuilt,
    listResponseInputItems: unbuilt,
    createRun: unbuilt,
    listRuns: unbuilt,
    resolveRunApproval: unbuilt,
    steerRun: unbuilt,
    stopRun: unbuilt,
    getCapabilities: unbuilt,
    getDetailedHealth: unbuilt,
    getMetrics: unbuilt,
    getDocs: unbuilt,
    getOpenApi: () => ({ status: 200, body: { ...room.openApi } }),
  });
  bindHttp(app, handlers, room);
  return app;
}
