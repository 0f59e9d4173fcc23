/** `agentd cron run`: requests an immediate run, which a gateway starts within a second. */
import { access } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { defineCommand } from "citty";
import { systemClock } from "../../base/time.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Job } from "../../cron/job/job.ts";
import { jobEntry, occurrenceEntry, toOccurrence, type Occurrence } from "../../cron/job/format.ts";
import { readOutput } from "../../cron/run/end.ts";
import { responseOf } from "../../cron/run/result.ts";
import { redact } from "../../base/observe.ts";
import { visible } from "../sessions/text.ts";
import { isTicking } from "../../cron/tick/status.ts";
import { changeExistingJob, type CronContext } from "./home.ts";
import { endText, nameAndId } from "./text.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { jsonOption, requiredArgument, switchOption } from "../kit/options.ts";
import { EXIT_FAILURE } from "../chat/run.ts";

export const runCommand = defineCommand({
  meta: {
    name: "run",
    description:
      "Run a job now, in addition to its schedule. A running gateway starts it within a second, otherwise the next `agentd cron tick`. A paused job stays paused",
  },
  args: {
    job: requiredArgument("Id or name of the job"),
    wait: switchOption("Wait for the result. Exits with 1 if the run or its message failed"),
    json: jsonOption,
  },
  async run({ args }) {
    const isJson = args.json === true;
    await changeExistingJob("run", async (cronContext) => {
      const job = await cronContext.jobs.run(args.job);
      const ticks = await isTicking(cronContext.store, Date.now());
      if (!isJson) print(`Triggered job: ${nameAndId(job)}`);
      if (!ticks) warn("Warning: no gateway is running. Run the job with `agentd cron tick`.");
      if (!args.wait || !ticks) {
        if (isJson) printJson({ job: jobEntry(job) });
        if (args.wait) process.exitCode = EXIT_FAILURE;
        return;
      }
      const run = await waitForRun(cronContext, job);
      const output = await waitForOutput(cronContext, run);
      const ended = await waitForMessages(cronContext, run);
      const answer = output === undefined ? undefined : await answerIn(cronContext, ended);
      if (isJson) {
        const entry = { run: occurrenceEntry(ended), output: output ?? null, answer: answer ?? null };
        printJson({ job: jobEntry(job), ...entry });
      } else {
        print(`  Outcome: ${endText(ended)}`);
        if (output !== undefined) print(`  Output:  ${output}`);
        if (answer !== undefined) print(`\n${visible(answer)}`);
      }
      if (ended.status !== "ok" || ended.deliveryStatus === "failed") process.exitCode = EXIT_FAILURE;
    });
  },
});

/** Returns the answer in the output; undefined for a failure, and for a run without an output. */
async function answerIn({ outputFolder }: CronContext, ended: Occurrence): Promise<string | undefined> {
  const { jobId, outputFile: file } = ended;
  const document = file === undefined ? undefined : await readOutput(outputFolder, { jobId, file });
  const answer = document === undefined ? undefined : responseOf(document);
  return answer === undefined ? undefined : redact(answer);
}

/** The poll interval: other processes report only through the store. */
const POLL_MS = 250;
/** The interval of checks that a gateway still runs. */
const LIVENESS_MS = 10_000;
/** How long to wait for the output file after the run. */
const OUTPUT_MS = 10_000;

/** Resolves to the finished run. ServiceError if no gateway is left to run it. */
async function waitForRun({ store, jobs }: CronContext, { id, manualAtMs = 0 }: Job): Promise<Occurrence> {
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    const row = await store.find("occurrences", { job_id: id, scheduled_at: manualAtMs, cause: "manual" });
    if (row && row.ended_at !== null) return toOccurrence(row);
    if (waitedMs % LIVENESS_MS === 0 && waitedMs > 0) {
      if (!row && !(await jobs.get(id)))
        throw new ServiceError("not_found", "The job was removed before its run started.");
      if (!(await isTicking(store, Date.now())))
        throw new ServiceError("internal_error", "The gateway stopped. See the run with `agentd cron runs`.");
    }
    await systemClock.sleep(POLL_MS);
  }
}

/** How long to wait for messages. Messages that wait for a retry count as pending. */
const MESSAGES_MS = 10_000;

/** Resolves to the run when its messages are settled, or as it is after a while. */
async function waitForMessages({ store }: CronContext, run: Occurrence): Promise<Occurrence> {
  let latest = run;
  for (let waitedMs = 0; latest.deliveryStatus === "pending" && waitedMs < MESSAGES_MS; waitedMs += POLL_MS) {
    await systemClock.sleep(POLL_MS);
    const row = await store.find("occurrences", { id: run.id });
    if (!row) break;
    latest = toOccurrence(row);
  }
  return latest;
}

/** Resolves to the path of the output, or undefined if it has none or it is not written yet. */
async function waitForOutput(
  { outputFolder }: CronContext,
  { jobId, outputFile }: Occurrence,
): Promise<string | undefined> {
  if (outputFile === undefined) return undefined;
  const path = join(outputFolder, jobId, outputFile);
  for (let waitedMs = 0; waitedMs < OUTPUT_MS; waitedMs += POLL_MS) {
    const isThere = await access(path).then(
      () => true,
      () => false,
    );
    if (isThere) return path;
    await systemClock.sleep(POLL_MS);
  }
  warn(`The output is not written yet. It will be at ${path}.`);
  return undefined;
}
