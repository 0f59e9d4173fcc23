/** The operations that few requests use. Each module loads with the first request that it answers. */
import type { OperationId } from "../../generated/http/server.gen.ts";
import type { LogRing } from "./admin/log-ring.ts";
import type { HttpContext, HttpDeps } from "./deps.ts";
import type { HttpHandlers, HttpRequest, HttpResponse } from "./edge/contract.ts";
import type { RunSubscribers } from "./runs/read.ts";

/** Returns the handlers of the operations in {@link operations}. */
export function onDemandHandlers(deps: HttpDeps, shared: Shared): Pick<HttpHandlers<HttpContext>, Name> {
  const bind = (handle: OnDemand[Name]) => (request: never) => handle(request, deps, shared);
  const bound = Object.entries(operations).map(([name, handle]) => [name, bind(handle)]);
  return Object.fromEntries(bound) as Pick<HttpHandlers<HttpContext>, Name>;
}

type Name = keyof typeof operations;

/** Each module with its operations. */
const operations = {
  ...from(() => import("./admin/config.ts"), "getConfig", "updateConfig", "getConfigSchema"),
  ...from(
    () => import("./admin/keys.ts"),
    "listKeys",
    "createKey",
    "getKey",
    "updateKey",
    "deleteKey",
    "rotateKey",
  ),
  ...from(() => import("./admin/logs.ts"), "listLogs"),
  ...from(() => import("./admin/service.ts"), "drainService", "createBackup"),
  ...from(
    () => import("./control/jobs/jobs.ts"),
    "listJobs",
    "getJob",
    "createJob",
    "updateJob",
    "deleteJob",
    "pauseJob",
    "resumeJob",
    "listJobTimes",
    "getScheduler",
    "runJob",
  ),
  ...from(
    () => import("./control/jobs/occurrences.ts"),
    "listOccurrences",
    "getOccurrence",
    "getOccurrenceOutput",
  ),
  ...from(() => import("./control/jobs/calendar.ts"), "getCalendar"),
  ...from(
    () => import("./control/outbox/messages.ts"),
    "listMessages",
    "getMessage",
    "retryMessage",
    "dropMessage",
    "retryMessages",
    "dropMessages",
  ),
  ...from(() => import("./control/outbox/platforms.ts"), "listPlatforms", "getPlatform", "testPlatform"),
  ...from(() => import("./control/questions/grants.ts"), "listGrants", "deleteGrant"),
  ...from(
    () => import("./control/sessions/actions.ts"),
    "forkSession",
    "compressSession",
    "undoSession",
    "exportSession",
  ),
  ...from(() => import("./control/sessions/events.ts"), "streamSessionEvents"),
  ...from(
    () => import("./control/webhooks/routes.ts"),
    "listRoutes",
    "getRoute",
    "createRoute",
    "updateRoute",
    "deleteRoute",
    "rotateRouteSecret",
    "testRoute",
  ),
  ...from(
    () => import("./control/webhooks/deliveries.ts"),
    "listDeliveries",
    "getDelivery",
    "replayDelivery",
  ),
  ...from(() => import("./usage/usage.ts"), "getUsage"),
  ...from(() => import("./usage/budgets.ts"), "listBudgets"),
  ...from(
    () => import("./usage/providers.ts"),
    "listPrices",
    "listProviders",
    "detectProviders",
    "testModel",
  ),
  ...from(
    () => import("./usage/tooling.ts"),
    "listSkills",
    "getSkill",
    "listToolsets",
    "listTools",
    "listMcpServers",
    "reloadMcp",
  ),
};

/** What the operations share beside the deps, as long as the process lives. */
interface Shared {
  readonly subscribers: RunSubscribers;
  readonly logs: LogRing;
}

/** How a module exports the operation of the same name. */
type OnDemand = {
  readonly [K in OperationId]: (
    request: HttpRequest<K, HttpContext>,
    deps: HttpDeps,
    shared: Shared,
  ) => HttpResponse<K> | Promise<HttpResponse<K>>;
};

function from<K extends OperationId>(
  module: () => Promise<Pick<OnDemand, NoInfer<K>>>,
  ...names: readonly K[]
): Pick<OnDemand, K> {
  const load = (name: K) => async (request: never, deps: HttpDeps, shared: Shared) =>
    (await module())[name](request, deps, shared);
  return Object.fromEntries(names.map((name) => [name, load(name)])) as unknown as Pick<OnDemand, K>;
}
