/** `agentd cron runs`: what ran, what did not, and what came of it. Nothing changes. */
import { join } from "node:path";
import { defineCommand } from "citty";
import { occurrenceEntry } from "../../cron/job/format.ts";
import { UsageError } from "../kit/arguments.ts";
import { lookAtJobs } from "./home.ts";
import { runsTable } from "./runs-text.ts";
import { print, printJson, warn } from "../kit/output.ts";

const MAX_LIMIT = 500;

export const runsCommand = defineCommand({
  meta: {
    name: "runs",
    description:
      "List the runs of a job, or of all, newest first, with the instants that were missed or skipped",
  },
  args: {
    job: { type: "positional", required: false, description: "Id or name of the job; without it all jobs" },
    limit: {
      type: "string",
      valueHint: "number",
      default: "20",
      description: `Runs a page, 1 to ${MAX_LIMIT}`,
    },
    cursor: { type: "string", description: "Go on where a page ended, with the cursor that it told" },
    json: { type: "boolean", description: "Print JSON" },
  },
  async run({ args }) {
    const limit = toLimit(args.limit);
    const isThere = await lookAtJobs(async ({ jobs, settings, outputFolder }) => {
      const job = args.job === undefined ? undefined : await jobs.find(args.job);
      const { occurrences, nextCursor } = await jobs.history(job?.id, { limit, cursor: args.cursor });
      if (args.json) {
        printJson({ runs: occurrences.map(occurrenceEntry), next_cursor: nextCursor ?? null });
      } else if (occurrences.length > 0) {
        const zone = job?.definition.zone ?? settings.zone;
        print(runsTable(occurrences, { zone, isOneJob: job !== undefined }));
        warn(`Outputs are in ${join(outputFolder, job?.id ?? "<job id>")}.`);
      } else warn(job === undefined ? "Nothing ran yet." : "It did not run yet.");
      if (nextCursor !== undefined && !args.json) warn(`There are more: --cursor ${nextCursor}`);
    });
    if (!isThere && args.json) printJson({ runs: [], next_cursor: null });
  },
});

function toLimit(text: string): number {
  const limit = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= MAX_LIMIT) return limit;
  throw new UsageError(`--limit must be a number from 1 to ${MAX_LIMIT}, not ${JSON.stringify(text)}.`);
}
