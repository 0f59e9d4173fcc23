/** `agentd cron run`: asks for a run at once; a gateway takes it within a second. */
import { access } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { defineCommand } from "citty";
import { systemClock } from "../../base/clock.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Job } from "../../cron/job/job.ts";
import { jobEntry, occurrenceEntry } from "../../cron/job/entry.ts";
import { toOccurrence, type Occurrence } from "../../cron/tick/occurrence.ts";
import { isTicking } from "../../cron/tick/status.ts";
import { changeKnownJob, type CronContext } from "./home.ts";
import { endText, nameAndId } from "./text.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { jsonOption } from "../kit/options.ts";
import { EXIT_FAILURE } from "../chat/run.ts";

export const runCommand = defineCommand({
  meta: {
    name: "run",
    description:
      "Run a job now, beside its schedule: a running gateway takes it within a second, else `agentd cron tick` does. A paused job stays paused",
  },
  args: {
    job: { type: "positional", required: true, description: "Id or name of the job" },
    wait: {
      type: "boolean",
      description:
        "Wait for its end, and tell what came of it; exit code 1 when it, or its delivery, did not end well",
    },
    json: jsonOption,
  },
  async run({ args }) {
    const isJson = args.json === true;
    await changeKnownJob("run", async (place) => {
      const job = await place.jobs.run(args.job);
      const ticks = await isTicking(place.store, Date.now());
      if (!isJson) print(`Triggered job: ${nameAndId(job)}`);
      if (!ticks) warn("Warning: no gateway is running to take it. `agentd cron tick` runs it now.");
      if (!args.wait || !ticks) {
        if (isJson) printJson({ job: jobEntry(job) });
        if (args.wait) process.exitCode = EXIT_FAILURE;
        return;
      }
      const run = await endOf(place, job);
      const output = await outputOf(place, run);
      const ended = await sentOf(place, run);
      if (isJson) printJson({ job: jobEntry(job), run: occurrenceEntry(ended), output: output ?? null });
      else {
        print(`  Outcome: ${endText(ended)}`);
        if (output !== undefined) print(`  Output:  ${output}`);
      }
      if (ended.status !== "ok" || ended.deliveryStatus === "failed") process.exitCode = EXIT_FAILURE;
    });
  },
});

/** Other processes tell of their work through the store alone. */
const LOOK_MS = 250;
/** Between looks at whether somebody still works. */
const PULSE_MS = 10_000;
/** What the file of an output gets once its run has ended. */
const OUTPUT_MS = 10_000;

/** ServiceError when nobody is left to run it. */
async function endOf({ store, jobs }: CronContext, { id, manualAtMs = 0 }: Job): Promise<Occurrence> {
  for (let waitedMs = 0; ; waitedMs += LOOK_MS) {
    const row = await store.find("occurrences", { job_id: id, scheduled_at: manualAtMs, cause: "manual" });
    if (row && row.ended_at !== null) return toOccurrence(row);
    if (waitedMs % PULSE_MS === 0 && waitedMs > 0) {
      if (!row && !(await jobs.get(id)))
        throw new ServiceError("not_found", "It was removed before its run began.");
      if (!(await isTicking(store, Date.now())))
        throw new ServiceError(
          "internal_error",
          "the gateway is gone; `agentd cron runs` tells what became of it.",
        );
    }
    await systemClock.sleep(LOOK_MS);
  }
}

/** What its messages get to leave. Those that wait for another try are told as on their way. */
const MESSAGES_MS = 10_000;

/** The run, once it is known what became of its messages, or as it is when that takes long. */
async function sentOf({ store }: CronContext, run: Occurrence): Promise<Occurrence> {
  let seen = run;
  for (let waitedMs = 0; seen.deliveryStatus === "pending" && waitedMs < MESSAGES_MS; waitedMs += LOOK_MS) {
    await systemClock.sleep(LOOK_MS);
    const row = await store.find("occurrences", { id: run.id });
    if (!row) break;
    seen = toOccurrence(row);
  }
  return seen;
}

/** Undefined: there is none, or it is not there yet. */
async function outputOf(
  { outputFolder }: CronContext,
  { jobId, outputFile }: Occurrence,
): Promise<string | undefined> {
  if (outputFile === undefined) return undefined;
  const path = join(outputFolder, jobId, outputFile);
  for (let waitedMs = 0; waitedMs < OUTPUT_MS; waitedMs += LOOK_MS) {
    const isThere = await access(path).then(
      () => true,
      () => false,
    );
    if (isThere) return path;
    await systemClock.sleep(LOOK_MS);
  }
  warn(`Its output is not written yet; it will be ${path}.`);
  return undefined;
}
