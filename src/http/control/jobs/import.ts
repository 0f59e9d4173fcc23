import type { JobImport } from "../../../../generated/http/client/types.gen.ts";
import { redact } from "../../../base/observe.ts";
import { importJobs as readJobs } from "../../../cron/job/import.ts";
import type { JobInput } from "../../../cron/job/job.ts";
import type { HttpContext, HttpDeps } from "../../deps.ts";
import type { HttpRequest, HttpResponse } from "../../edge/contract.ts";
import { actOnce, dryRunHeader, replayedHeader } from "../write.ts";
import { contextOf, folderOf, jobsOf } from "./jobs.ts";

/** POST /v1/jobs/import: the jobs of a file, each under its id. */
export async function importJobs(
  { query, headers, body, ctx }: HttpRequest<"importJobs", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"importJobs">> {
  const { dry_run: isDryRun } = query;
  const jobs = jobsOf(ctx, deps);
  const read = async (): Promise<JobImport> => {
    const options = { jobs, jobContext: contextOf(jobs, deps), isDryRun, actor: ctx.identity.name };
    const checkInput = async (input: JobInput): Promise<JobInput> => {
      const workdir = await folderOf({ workdir: input.workdir }, ctx, deps);
      return { ...input, workdir: workdir ?? undefined };
    };
    const done = await readJobs(JSON.stringify(body), { ...options, checkInput });
    return {
      object: "agent.job.import",
      imported: done.jobs.filter(({ outcome }) => outcome === "imported").length,
      jobs: done.jobs.map(({ id, name, outcome, reason }) => ({
        id,
        name: redact(name),
        outcome,
        reason: reason === undefined ? null : redact(reason),
      })),
      problems: done.problems.map(redact),
    };
  };
  if (isDryRun) return { status: 200, headers: dryRunHeader(true), body: await read() };
  const key = headers["idempotency-key"];
  const once = { ctx, key, operation: "importJobs", content: body };
  const { result, isReplayed } = await actOnce<JobImport>(once, deps, async (record) => {
    const made = await read();
    // A crash before this imports the rest at the next attempt: what exists stays.
    if (key !== undefined) await deps.store.write((tx) => record(tx, made));
    return made;
  });
  return { status: 200, headers: replayedHeader(isReplayed), body: result };
}
