/** `agentd cron status`: nothing changes. */
import { defineCommand } from "citty";
import { isTicking, readCronStatus, type CronStatus } from "../../cron/tick/status.ts";
import { lookAtJobs, readCronHome, type CronHome, type CronPlace } from "./home.ts";
import { statusEntry, statusText, stillnessWarning, type StatusAround } from "./status-text.ts";
import { print, printJson, warn } from "../kit/output.ts";

export const statusCommand = defineCommand({
  meta: {
    name: "status",
    description: "How the scheduler stands: when it last looked at the jobs, what is due next, what is late",
  },
  args: { json: { type: "boolean", description: "Print JSON" } },
  async run({ args }) {
    const show = (status: CronStatus, around: StatusAround) => {
      if (args.json) printJson(statusEntry(status, around));
      else print(statusText(status, around));
      tell(stillnessWarning(status.state, around));
    };
    const isThere = await lookAtJobs(async (place) => {
      const around = aroundOf(place);
      show(await readCronStatus(place.store, around), around);
    });
    if (!isThere) show(EMPTY, aroundOf(await readCronHome()));
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
export async function warnOfStillness(place: CronPlace): Promise<void> {
  const around = aroundOf(place);
  if (await isTicking(place.store, around.nowMs)) return;
  const { state } = await readCronStatus(place.store, around);
  tell(stillnessWarning(state, around));
}

function aroundOf({ settings }: Pick<CronHome, "settings">): StatusAround {
  return { nowMs: Date.now(), zone: settings.zone, isEnabled: settings.isEnabled };
}

function tell(warning: string | undefined): void {
  if (warning !== undefined) warn(warning);
}
