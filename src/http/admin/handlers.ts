/** The operations that administrators use. Their modules load on demand: most servers never get these requests. */
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { HttpHandlers } from "../edge/contract.ts";
import type { LogRing } from "./log-ring.ts";

type Names =
  | "listKeys"
  | "createKey"
  | "getKey"
  | "updateKey"
  | "deleteKey"
  | "rotateKey"
  | "getConfig"
  | "updateConfig"
  | "getConfigSchema"
  | "listLogs"
  | "drainService"
  | "createBackup";

const config = () => import("./config.ts");
const logs = () => import("./logs.ts");
const service = () => import("./service.ts");
const keys = () => import("./keys.ts");

export function adminHandlers(deps: HttpDeps, ring: LogRing): Pick<HttpHandlers<HttpContext>, Names> {
  return {
    listKeys: async (request) => (await keys()).listKeys(request, deps),
    createKey: async (request) => (await keys()).createKey(request, deps),
    getKey: async (request) => (await keys()).getKey(request, deps),
    updateKey: async (request) => (await keys()).updateKey(request, deps),
    deleteKey: async (request) => (await keys()).deleteKey(request, deps),
    rotateKey: async (request) => (await keys()).rotateKey(request, deps),
    getConfig: async (request) => (await config()).getConfig(request, deps),
    updateConfig: async (request) => (await config()).updateConfig(request, deps),
    listLogs: async (request) => (await logs()).listLogs(request, ring),
    drainService: async (request) => (await service()).drainService(request, deps),
    createBackup: async (request) => (await service()).createBackup(request, deps),
    getConfigSchema: async () => (await config()).getConfigSchema(deps),
  };
}
