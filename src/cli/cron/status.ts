/** `agentd cron status`, and the warning when no scheduler runs. */
import { defineCommand } from "citty";
import {
  isTicking,
  readCronStatus,
  type CronStatus,
  type DueJob,
  type TickerStatus,
} from "../../cron/tick/status.ts";
import { schedulerEntry } from "../../cron/job/format.ts";
import { readJobs, readCronHome, type CronHome, type CronContext } from "./home.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { jsonOption } from "../kit/options.ts";
import { JOB_STATES } from "../../cron/job/job.ts";
import { zonedTime } from "../../cron/job/job.ts";
import { formatRows, shown } from "./text.ts";
import { formatDuration } from "../kit/duration.ts";

export const statusCommand = defineCommand({
  meta: {
    name: "status",
    description: "Show the status of the scheduler: its last tick, the next job and late jobs",
  },
  args: { json: jsonOption },
  async run({ args }) {
    const show = (status: CronStatus, jobContext: StatusContext) => {
      if (args.json) printJson(schedulerEntry(status, jobContext));
      else print(statusText(status, jobContext));
      report(schedulerWarning(status.state, jobContext));
    };
    const isThere = await readJobs(async (cronContext) => {
      const jobContext = contextOf(cronContext);
      show(await readCronStatus(cronContext.store, jobContext), jobContext);
    });
    if (!isThere) show(EMPTY, contextOf(await readCronHome()));
  },
});

/** The status of a home without a database. */
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

/** Warns on stderr if no scheduler runs the jobs. */
export async function warnIfNotTicking(cronContext: CronContext): Promise<void> {
  const jobContext = contextOf(cronContext);
  if (await isTicking(cronContext.store, jobContext.nowMs)) return;
  const { state } = await readCronStatus(cronContext.store, jobContext);
  report(schedulerWarning(state, jobContext));
}

function contextOf({ settings }: Pick<CronHome, "settings">): StatusContext {
  return { nowMs: Date.now(), zone: settings.zone, isEnabled: settings.isEnabled };
}

function report(warning: string | undefined): void {
  if (warning !== undefined) warn(warning);
}

/** What the status needs besides the store. */
interface StatusContext {
  readonly nowMs: number;
  /** The configured time zone. */
  readonly zone: string;
  /** False: `cron.enabled` is off. */
  readonly isEnabled: boolean;
}

export function statusText(status: CronStatus, jobContext: StatusContext): string {
  const { next, late, failures, open, broken } = status;
  const at = ({ id, name, dueAtMs }: DueJob) =>
    `${shown(name)} (${id}), ${zonedTime(dueAtMs, jobContext.zone)}`;
  const more = (count: number, named: readonly unknown[]) =>
    count > named.length ? [`... and ${count - named.length} more`] : [];
  return [
    ...formatRows(
      [
        ["Scheduler", schedulerText(status, jobContext)],
        ["Last tick", lastTickText(status, jobContext)],
        ["Error", lastErrorOf(status)],
        ["Jobs", jobsText(status)],
        ["Broken", broken > 0 ? `${broken} unreadable, which do not run` : undefined],
        ["Running", String(open)],
        ["Next due", next === undefined ? "nothing" : at(next)],
        ["Clock", clockText(status, jobContext)],
        ["Late", late.count === 0 ? "nothing" : `${late.count} overdue by more than a minute`],
        ["Failed", failures.count === 0 ? "nothing" : `${failures.count}`],
      ],
      "",
    ),
    ...section("Late:", [...late.named.map(at), ...more(late.count, late.named)]),
    ...section("Failed:", [
      ...failures.named.map(({ id, name, lastStatus }) => `${shown(name)} (${id}): ${lastStatus}`),
      ...more(failures.count, failures.named),
    ]),
  ].join("\n");
}

/** Returns a warning if no scheduler runs the jobs. */
export function schedulerWarning(
  state: CronStatus["state"],
  { isEnabled }: StatusContext,
): string | undefined {
  if (state === "ticking") return undefined;
  const off = isEnabled ? "" : " (and cron.enabled is off in this configuration)";
  if (state === "stalled")
    return `Warning: the scheduler has stalled${off}, so jobs do not run. See \`agentd cron status\` and restart \`agentd gateway\`.`;
  return `Warning: no gateway is running${off}, so jobs do not run on schedule. Start \`agentd gateway\`, or run due jobs with \`agentd cron tick\`.`;
}

function schedulerText({ state, tickers }: CronStatus, { isEnabled }: StatusContext): string {
  const off = isEnabled ? "" : "; cron.enabled is off in this configuration";
  if (state === "none") return `not running: no \`agentd gateway\` is running${off}`;
  if (state === "stalled") return `stalled: no tick for more than 200 s${off}`;
  const running = tickers.filter((each) => each.state === "ticking").map(tickerText);
  return `running, ${running.join("; ")}${off}`;
}

function tickerText({ host, pid, owner }: TickerStatus): string {
  return pid === undefined ? owner : `process ${pid} on ${host ?? "this machine"}`;
}

function clockText({ corrected }: CronStatus, { zone }: StatusContext): string | undefined {
  if (corrected === undefined) return undefined;
  const { atMs, count } = corrected;
  return `was ahead: ${count} scheduled too late, corrected ${zonedTime(atMs, zone)}`;
}

function lastTickText({ lastTickAtMs }: CronStatus, { nowMs, zone }: StatusContext): string {
  if (lastTickAtMs === undefined) return "unknown";
  const seconds = Math.max(0, Math.round((nowMs - lastTickAtMs) / 1000));
  return `${zonedTime(lastTickAtMs, zone)}, ${formatDuration(seconds)} ago`;
}

/** Returns the last error of a current scheduler. */
function lastErrorOf({ tickers }: CronStatus): string | undefined {
  const error = tickers.find(
    ({ state, lastError }) => state !== "gone" && lastError !== undefined,
  )?.lastError;
  return error === undefined ? undefined : shown(error);
}

function jobsText({ jobs }: CronStatus): string {
  if (jobs.all === 0) return "none";
  const there = JOB_STATES.filter((state) => jobs[state] > 0);
  return (
    there.map((state) => `${jobs[state]} ${state === "scheduled" ? "active" : state}`).join(", ") || "none"
  );
}

function section(title: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : [title, ...lines.map((line) => `  ${line}`)];
}
