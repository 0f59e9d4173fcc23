/** `agentd cron run`: requests an immediate run, which a gateway starts within a second. */
import { randomUUID } from "node:crypto";
import process from "node:process";
import { systemClock } from "../../base/time.ts";
import { ServiceError } from "../../base/errors.ts";
import { AgentApiError, type Occurrence } from "../../client/http.ts";
import { responseOf } from "../../cron/run/result.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import type { Api } from "../kit/api.ts";
import { defineApiCommand } from "../kit/command.ts";
import { jsonOption, requiredArgument, switchOption } from "../kit/options.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { visible } from "../sessions/text.ts";
import { pathOf } from "./change.ts";
import { changeJob } from "./jobs.ts";
import { readScheduler } from "./status.ts";
import { endText, nameAndId } from "./text.ts";

export const runCommand = defineApiCommand({
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
    await changeJob("run", async (api) => {
      const { path, headers } = await pathOf(api, args.job);
      // The same key asks again for the same run.
      const request = { path, headers: { ...headers, "Idempotency-Key": randomUUID() } };
      const { data: asked } = await api.client.runJob(request);
      const ticks = await isTicking(api);
      if (!isJson) print(`Triggered job: ${nameAndId(asked.job)}`);
      if (!ticks) warn("Warning: no gateway is running. Run the job with `agentd cron tick`.");
      if (!args.wait || !ticks) {
        if (isJson) printJson({ job: asked.job });
        if (args.wait) process.exitCode = EXIT_FAILURE;
        return;
      }
      const run = await waitForRun(api, request);
      const document = await waitForOutput(api, run, headers);
      const ended = await waitForMessages(api, run, headers);
      const output = document === undefined ? undefined : `cron/output/${ended.job_id}/${ended.output_file}`;
      const answer = document === undefined ? undefined : responseOf(document);
      if (isJson) printJson({ job: asked.job, run: ended, output: output ?? null, answer: answer ?? null });
      else {
        print(`  Outcome: ${endText(ended)}`);
        if (output !== undefined) print(`  Output:  ${output} in the home`);
        if (answer !== undefined) print(`\n${visible(answer)}`);
      }
      if (ended.status !== "ok" || ended.delivery_status === "failed") process.exitCode = EXIT_FAILURE;
    });
  },
});

async function isTicking(api: Api): Promise<boolean> {
  return (await readScheduler(api)).state === "ticking";
}

/** How long a request waits for the end of the run, in seconds. */
const WAIT_SECONDS = 20;
const POLL_MS = 250;
/** How long to wait for the output file after the run. */
const OUTPUT_MS = 10_000;
/** How long to wait for messages. Messages that wait for a retry count as pending. */
const MESSAGES_MS = 10_000;

/** Resolves to the finished run. ServiceError if no gateway is left to run it. */
async function waitForRun(
  api: Api,
  request: { readonly path: { readonly job_id: string }; readonly headers: Record<string, string> },
): Promise<Occurrence> {
  for (;;) {
    const { data } = await api.client.runJob({ ...request, query: { wait: WAIT_SECONDS } });
    const { occurrence } = data;
    if (occurrence && occurrence.ended_at !== null) return occurrence;
    if (!(await isTicking(api)))
      throw new ServiceError("internal_error", "The gateway stopped. See the run with `agentd cron runs`.");
  }
}

/** Resolves to the run when its messages are settled, or as it is after a while. */
async function waitForMessages(
  { client }: Api,
  run: Occurrence,
  headers: Api["anyOwner"],
): Promise<Occurrence> {
  let latest = run;
  for (
    let waitedMs = 0;
    latest.delivery_status === "pending" && waitedMs < MESSAGES_MS;
    waitedMs += POLL_MS
  ) {
    await systemClock.sleep(POLL_MS);
    latest = (await client.getOccurrence({ path: { occurrence_id: run.id }, headers })).data;
  }
  return latest;
}

/** Resolves to the output, or undefined if it has none or it is not written in time. */
async function waitForOutput(
  { client }: Api,
  { id, output_file: file }: Occurrence,
  headers: Api["anyOwner"],
): Promise<string | undefined> {
  if (file === null) return undefined;
  for (let waitedMs = 0; waitedMs < OUTPUT_MS; waitedMs += POLL_MS) {
    const found = await client
      .getOccurrenceOutput({ path: { occurrence_id: id }, headers })
      .catch((error: unknown) => {
        if (error instanceof AgentApiError && error.status === 404) return undefined;
        throw error;
      });
    if (found) return found.data as string;
    await systemClock.sleep(POLL_MS);
  }
  warn(`The output is not written yet. It will be the file ${file}.`);
  return undefined;
}
