/** The operations of sessions that few requests use. Their modules load on demand. */
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { HttpHandlers } from "../edge/contract.ts";
import type { RunSubscribers } from "../runs/read.ts";

type Names =
  | "forkSession"
  | "compressSession"
  | "undoSession"
  | "exportSession"
  | "streamSessionEvents"
  | "listGrants"
  | "deleteGrant";

const actions = () => import("./session-actions.ts");
const events = () => import("./session-events.ts");
const grants = () => import("./grants.ts");

export function sessionHandlers(
  deps: HttpDeps,
  subscribers: RunSubscribers,
): Pick<HttpHandlers<HttpContext>, Names> {
  return {
    forkSession: async (request) => (await actions()).forkSession(request, deps),
    compressSession: async (request) => (await actions()).compressSession(request, deps),
    undoSession: async (request) => (await actions()).undoSession(request, deps),
    exportSession: async (request) => (await actions()).exportSession(request, deps),
    streamSessionEvents: async (request) => (await events()).streamSessionEvents(request, deps, subscribers),
    listGrants: async (request) => (await grants()).listGrants(request, deps),
    deleteGrant: async (request) => (await grants()).deleteGrant(request, deps),
  };
}
