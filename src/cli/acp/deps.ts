/** The agent behind `agentd acp`, loaded behind the answer to `initialize`. */
import { isDeepStrictEqual } from "node:util";
import { type AcpDeps, acpSettings } from "../../acp/deps.ts";
import { systemClock } from "../../base/clock.ts";
import { startRpcFromHome } from "../../app/start.ts";
import { loadConfig } from "../../config/config.ts";
import { resolveWithin } from "../../config/home.ts";
import { openHome, openHomeStore, type Home } from "../../app/home.ts";
import { keepLog } from "./log-file.ts";
import { watchWire, type WatchedWire } from "./watch.ts";
import { currentContext } from "../kit/context.ts";
import { keepHeapSmall } from "../kit/small-heap.ts";

/** What turns get that do not end when they are cancelled. */
const GRACE_MS = 250;

/** ServiceError `invalid_config` that lists what is wrong, or `state_store_unavailable`. */
export async function loadAcpDeps(watched: WatchedWire): Promise<AcpDeps> {
  const opened = await openHome(currentContext());
  const { approvals, acp } = opened.config;
  const { agentHome, userHome } = opened.paths;
  keepLog(acp.log_file === undefined ? undefined : resolveWithin(agentHome, acp.log_file, userHome));
  watched.wire.limit(acp.max_line_bytes);
  // An editor has a person in front of it: its questions wait as long as its own block says.
  const config = {
    ...opened.config,
    approvals: { ...approvals, timeout_seconds: acp.approval_timeout_seconds },
  };
  const service = await startRpcFromHome({ ...opened, config }, await openHomeStore(opened));
  const settings = acpSettings(config);
  const unwatch = watchWire(watched, { settings, isTraced: acp.trace });
  // Behind the loading, which needs room and would be slower without.
  keepHeapSmall();
  return {
    ...service.deps,
    store: service.store,
    clock: systemClock,
    log: opened.log,
    settings,
    owner: "default",
    isCurrent: () => isCurrent(opened),
    close: () => {
      unwatch();
      return service.stop({ graceMs: GRACE_MS });
    },
  };
}

/** A login may have happened in another process. */
async function isCurrent({ folder: home, processEnv, config, env }: Home): Promise<boolean> {
  const now = await loadConfig({ home, env: processEnv }).catch(() => undefined);
  return isDeepStrictEqual([now?.config, now?.env], [config, env]) && !now?.issues.some(isError);
}

function isError({ severity }: { readonly severity: string }): boolean {
  return severity === "error";
}
