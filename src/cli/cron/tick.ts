/** `agentd cron tick`: runs due jobs once, for homes without a permanent gateway. */
import { join } from "node:path";
import process from "node:process";
import { defineCommand } from "citty";
import { systemClock } from "../../base/time.ts";
import { createLog } from "../../base/observe.ts";
import { occurrenceEntry, type Occurrence } from "../../cron/job/format.ts";
import type { TickService } from "../../app/service.ts";
import { Jobs } from "../../cron/job/jobs.ts";
import { currentContext } from "../kit/context.ts";
import { readCronHome } from "./home.ts";
import { endText, shown } from "./text.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { jsonOption } from "../kit/options.ts";
import { EXIT_FAILURE } from "../chat/run.ts";

export const tickCommand = defineCommand({
  meta: {
    name: "tick",
    description:
      "Run all due jobs once and wait for their results and messages. For use in a system crontab, or to test a job. Safe while a gateway is running: nothing runs twice. Ctrl-C waits for active runs",
  },
  args: { json: jsonOption },
  async run({ args }) {
    const { startTickFromHome } = await import("../../app/start.ts");
    const service = await startTickFromHome({ ...currentContext(), log: createLog("warn") });
    const ran = await runDue(service).finally(() => service.stop());
    for (const name of SIGNALS) process.removeAllListeners(name);
    if (!ran) {
      warn("Some runs did not end in time and were cancelled. See `agentd cron runs`.");
      process.exit(EXIT_FAILURE);
    }
    const { outputFolder } = await readCronHome();
    if (args.json) printJson({ runs: ran.map((each) => occurrenceEntry(each)), count: ran.length });
    else print(ranText(ran, outputFolder));
  },
});

/** How long to wait for messages after the runs. Other processes send the rest. */
const MESSAGES_MS = 60_000;
/** The same wait after a stop signal. */
const LAST_MESSAGES_MS = 5_000;
const POLL_MS = 100;
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Resolves to the runs, or undefined if a stop had to cancel some. */
async function runDue(service: TickService): Promise<readonly Occurrence[] | undefined> {
  const { scheduler, store } = service;
  const { signal, cut } = stopOnSignal(service);
  const ids = await Promise.race([scheduler.once({ signal }), cut]);
  if (ids === undefined) return undefined;
  const jobs = new Jobs(store, { maxJobs: 0 });
  const left = await messagesLeft(jobs, ids, signal);
  if (left > 0) warn(`${left} of the messages are not sent yet. A gateway or the next tick sends them.`);
  return jobs.occurrences(ids);
}

/** How long the ends of cancelled runs may take to be written. */
const LAST_WRITES_MS = 2_000;

/**
 * The first signal starts no more runs and gives active ones `api_server.drain_seconds`; the second ends the process.
 * `cut` resolves after that time.
 */
function stopOnSignal(service: Pick<TickService, "drain">): {
  readonly signal: AbortSignal;
  readonly cut: Promise<undefined>;
} {
  const stop = new AbortController();
  const { promise: cut, resolve } = Promise.withResolvers<undefined>();
  const onSignal = async (name: string) => {
    // A closing terminal sends SIGHUP twice.
    if (stop.signal.aborted && name === "SIGHUP") return;
    if (stop.signal.aborted) process.exit(EXIT_FAILURE);
    stop.abort();
    warn("Stopping after the active runs. Press Ctrl-C again to stop now.");
    await service.drain();
    await systemClock.sleep(LAST_WRITES_MS);
    resolve(undefined);
  };
  for (const name of SIGNALS) process.on(name, () => void onSignal(name));
  return { signal: stop.signal, cut };
}

/** Resolves to the number of messages without an attempt. */
async function messagesLeft(jobs: Jobs, ids: readonly string[], signal: AbortSignal): Promise<number> {
  if (ids.length === 0) return 0;
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    const left = await jobs.countUnsentMessages(ids);
    if (left === 0 || waitedMs >= (signal.aborted ? LAST_MESSAGES_MS : MESSAGES_MS)) return left;
    await systemClock.sleep(POLL_MS);
  }
}

function ranText(ran: readonly Occurrence[], outputFolder: string): string {
  if (ran.length === 0) return "Nothing was due.";
  const lines = ran.map((each) => {
    const output =
      each.outputFile === undefined ? "" : `\n    ${join(outputFolder, each.jobId, each.outputFile)}`;
    return `  ${shown(each.jobName)} (${each.jobId}): ${endText(occurrenceEntry(each))}${output}`;
  });
  return [`Ran ${ran.length} ${ran.length === 1 ? "job" : "jobs"}:`, ...lines].join("\n");
}
