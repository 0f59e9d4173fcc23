/** `agentd cron status`: nothing changes. */
import { defineCommand } from "citty";
import { isTicking, readCronStatus, type CronStatus } from "../../cron/tick/status.ts";
import { lookAtJobs, readCronHome, type CronHome, type CronContext } from "./home.ts";
import { statusEntry, statusText, stillnessWarning, type StatusContext } from "./status-text.ts";
import { print, printJson, warn } from "../kit/output.ts";

export const statusCommand = defineCommand({
  meta: {
    name: "status",
    description: "How the scheduler stands: when it last looked at the jobs, what is due next, what is late",
  },
  args: { json: { type: "boolean", description: "Print JSON" } },
  async run({ args }) {
    const show = (status: CronStatus, jobContext: StatusContext) => {
      if (args.json) printJson(statusEntry(status, jobContext));
      else print(statusText(status, jobContext));
      tell(stillnessWarning(status.state, jobContext));
    };
    const isThere = await lookAtJobs(async (place) => {
      const jobContext = contextOf(place);
      show(await readCronStatus(place.store, jobContext), jobContext);
    });
    if (!isThere) show(EMPTY, contextOf(await readCronHome()));
  },
});

/** Of a home without a database. */
const EMPTY: CronStatus = {
  state: "none",
  tickers: [],
  lastTickAtMs: undefined,
  jobs: { scheduled: 0, paused: 0, completed: 0, missed: 0, error: 0, all: 0 },
  broken: 0,
  late: { count: 0, oldestDueAtMs: undefined, named: [] },
  next: undefined,
  corrected: undefined,
  open: 0,
  failures: { count: 0, named: [] },
};

/** Says, on stderr, when nobody would run the jobs. */
export async function warnOfStillness(place: CronContext): Promise<void> {
  const jobContext = contextOf(place);
  if (await isTicking(place.store, jobContext.nowMs)) return;
  const { state } = await readCronStatus(place.store, jobContext);
  tell(stillnessWarning(state, jobContext));
}

function contextOf({ settings }: Pick<CronHome, "settings">): StatusContext {
  return { nowMs: Date.now(), zone: settings.zone, isEnabled: settings.isEnabled };
}

function tell(warning: string | undefined): void {
  if (warning !== undefined) warn(warning);
}
