/** `agentd cron status`, and the warning when no scheduler runs. */
import type { DueJob, Scheduler, SchedulerTicker } from "../../client/http.ts";
import { JOB_STATES, zonedTime } from "../../cron/job/job.ts";
import { withApi, type Api } from "../kit/api.ts";
import { defineApiCommand } from "../kit/command.ts";
import { formatDuration } from "../kit/duration.ts";
import { jsonOption } from "../kit/options.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { formatRows, shown } from "./text.ts";

export const statusCommand = defineApiCommand({
  meta: {
    name: "status",
    description: "Show the status of the scheduler: its last tick, the next job and late jobs",
  },
  args: { json: jsonOption },
  async run({ args }) {
    await withApi(async (api) => {
      const scheduler = await readScheduler(api);
      if (args.json) printJson(scheduler);
      else print(statusText(scheduler, Date.now()));
      warnOfScheduler(scheduler);
    });
  },
});

export async function readScheduler({ client, anyOwner: headers }: Api): Promise<Scheduler> {
  return (await client.getScheduler({ headers })).data;
}

/** Warns on stderr if no scheduler runs the jobs. */
export function warnOfScheduler(scheduler: Pick<Scheduler, "state" | "enabled">): void {
  const warning = schedulerWarning(scheduler);
  if (warning !== undefined) warn(warning);
}

export function statusText(scheduler: Scheduler, nowMs: number): string {
  const { next, late, failing, running, broken, time_zone: zone } = scheduler;
  const at = ({ id, name, due_at: due }: DueJob) => `${shown(name)} (${id}), ${zonedTime(due * 1000, zone)}`;
  const more = (count: number, named: readonly unknown[]) =>
    count > named.length ? [`... and ${count - named.length} more`] : [];
  return [
    ...formatRows(
      [
        ["Scheduler", schedulerText(scheduler)],
        ["Last tick", lastTickText(scheduler, nowMs)],
        ["Error", lastErrorOf(scheduler)],
        ["Jobs", jobsText(scheduler)],
        ["Broken", broken > 0 ? `${broken} unreadable, which do not run` : undefined],
        ["Running", String(running)],
        ["Next due", next === null ? "nothing" : at(next)],
        ["Clock", clockText(scheduler)],
        ["Late", late.count === 0 ? "nothing" : `${late.count} overdue by more than a minute`],
        ["Failed", failing.count === 0 ? "nothing" : `${failing.count}`],
      ],
      "",
    ),
    ...section("Late:", [...late.jobs.map(at), ...more(late.count, late.jobs)]),
    ...section("Failed:", [
      ...failing.jobs.map(({ id, name, last_status: status }) => `${shown(name)} (${id}): ${status}`),
      ...more(failing.count, failing.jobs),
    ]),
  ].join("\n");
}

/** Returns a warning if no scheduler runs the jobs. */
export function schedulerWarning({
  state,
  enabled,
}: Pick<Scheduler, "state" | "enabled">): string | undefined {
  if (state === "ticking") return undefined;
  const off = enabled ? "" : " (and cron.enabled is off in this configuration)";
  if (state === "stalled")
    return `Warning: the scheduler has stalled${off}, so jobs do not run. See \`agentd cron status\` and restart \`agentd gateway\`.`;
  return `Warning: no gateway is running${off}, so jobs do not run on schedule. Start \`agentd gateway\`, or run due jobs with \`agentd cron tick\`.`;
}

function schedulerText({ state, tickers, enabled }: Scheduler): string {
  const off = enabled ? "" : "; cron.enabled is off in this configuration";
  if (state === "none") return `not running: no \`agentd gateway\` is running${off}`;
  if (state === "stalled") return `stalled: no tick for more than 200 s${off}`;
  const running = tickers.filter((each) => each.state === "ticking").map(tickerText);
  return `running, ${running.join("; ")}${off}`;
}

function tickerText({ host, pid }: SchedulerTicker): string {
  return pid === null ? "an unknown process" : `process ${pid} on ${host ?? "this machine"}`;
}

function clockText({ corrected, time_zone: zone }: Scheduler): string | undefined {
  if (corrected === null) return undefined;
  const { at, count } = corrected;
  return `was ahead: ${count} scheduled too late, corrected ${zonedTime(at * 1000, zone)}`;
}

function lastTickText({ last_tick_at: last, time_zone: zone }: Scheduler, nowMs: number): string {
  if (last === null) return "unknown";
  const seconds = Math.max(0, Math.round(nowMs / 1000 - last));
  return `${zonedTime(last * 1000, zone)}, ${formatDuration(seconds)} ago`;
}

/** Returns the last error of a current scheduler. */
function lastErrorOf({ tickers }: Scheduler): string | undefined {
  const error = tickers.find(({ state, last_error: last }) => state !== "gone" && last !== null)?.last_error;
  return error ? shown(error) : undefined;
}

function jobsText({ jobs }: Scheduler): string {
  const there = JOB_STATES.filter((state) => (jobs[state] ?? 0) > 0);
  return (
    there.map((state) => `${jobs[state]} ${state === "scheduled" ? "active" : state}`).join(", ") || "none"
  );
}

function section(title: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : [title, ...lines.map((line) => `  ${line}`)];
}
