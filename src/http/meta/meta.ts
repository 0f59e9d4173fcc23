import { ServiceError } from "../../base/errors.ts";
import type { HttpResponse } from "../edge/contract.ts";
import type { HttpDeps } from "../deps.ts";

/** Unix seconds that the model list reports; the format wants one, and the agent has no release date to give. */
const CREATED = 1_735_689_600;

/** GET /v1/models: a list of one, the agent itself. */
export function listModels({ settings }: HttpDeps): HttpResponse<"listModels"> {
  return { status: 200, body: { object: "list", data: [model(settings.modelName)] } };
}

/** GET /v1/models/{model} */
export function getModel(name: string, { settings }: HttpDeps): HttpResponse<"getModel"> {
  if (name === settings.modelName) return { status: 200, body: model(name) };
  throw new ServiceError(
    "unknown_model",
    `There is no model ${JSON.stringify(name)} here; the agent is ${JSON.stringify(settings.modelName)}.`,
    { param: "model" },
  );
}

/** GET /health. ServiceError `server_draining`, by whose status load balancers know that this server takes no more. */
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
