/** The operations that few requests use. Each module loads with the first request that it answers. */
import type { OperationId } from "../../generated/http/server.gen.ts";
import type { LogRing } from "./admin/log-ring.ts";
import type { Console } from "./console/console.ts";
import type { HttpContext, HttpDeps } from "./deps.ts";
import type { FeedStreams } from "./control/feed.ts";
import type { HttpHandlers } from "./edge/contract.ts";
import type { RunSubscribers } from "./runs/read.ts";

/** Each module with its operations: add the name of an operation to its module. */
export const onDemand = {
  ...from(
    () => import("./admin/config.ts"),
    "getConfig",
    "updateConfig",
    "getConfigSchema",
    "listVariables",
    "putVariable",
    "deleteVariable",
  ),
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
  ...from(
    () => import("./admin/service.ts"),
    "drainService",
    "reloadService",
    "getDoctor",
    "createBackup",
    "importBackup",
  ),
  ...from(
    () => import("./console/sign-in.ts"),
    "createConsoleCode",
    "getConsoleSession",
    "createConsoleSession",
    "deleteConsoleSession",
    "listConsoleSessions",
    "deleteConsoleSessions",
  ),
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
  ...from(() => import("./control/jobs/import.ts"), "importJobs"),
  ...from(() => import("./control/jobs/calendar.ts"), "getCalendar", "previewSchedule"),
  ...from(
    () => import("./control/outbox/messages.ts"),
    "listMessages",
    "getMessage",
    "sendMessage",
    "retryMessage",
    "dropMessage",
    "retryMessages",
    "dropMessages",
  ),
  ...from(() => import("./control/outbox/platforms.ts"), "listPlatforms", "getPlatform", "testPlatform"),
  ...from(() => import("./control/questions/grants.ts"), "listGrants", "deleteGrant"),
  ...from(
    () => import("./control/sessions/actions.ts"),
    "createSession",
    "forkSession",
    "compressSession",
    "undoSession",
    "getSessionAttachment",
  ),
  ...from(() => import("./control/sessions/export.ts"), "exportSession"),
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
    "replayDeliveries",
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

/** What handlers share, as long as the process lives. */
export interface Shared {
  readonly subscribers: RunSubscribers;
  readonly streams: FeedStreams;
  readonly logs: LogRing;
  readonly console: Console;
}

/** The handlers of the API: a handler gets the request, the deps and what all share. */
export type Handlers = HttpHandlers<HttpContext, [deps: HttpDeps, shared: Shared]>;

/** Returns handlers that load the module which exports them. */
function from<K extends OperationId>(
  module: () => Promise<Pick<Handlers, NoInfer<K>>>,
  ...names: readonly K[]
): Pick<Handlers, K> {
  const load = (name: K) => async (request: never, deps: HttpDeps, shared: Shared) =>
    (await module())[name](request, deps, shared);
  return Object.fromEntries(names.map((name) => [name, load(name)])) as unknown as Pick<Handlers, K>;
}
