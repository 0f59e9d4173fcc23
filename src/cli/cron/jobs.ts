/** Finds the job that a command names, and prefixes errors with what failed. */
import { ServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe.ts";
import { nearest } from "../../base/suggest.ts";
import { AgentApiError, type Job, type JobList } from "../../client/http.ts";
import { withApi, type Api } from "../kit/api.ts";
import { warn } from "../kit/output.ts";
import { masked } from "./text.ts";

/** Jobs of one request. */
export const JOB_PAGE = 100;
const JOB_ID = /^[0-9a-f]{12}$/;
const MAX_SHOWN = 5;

/** Runs `work` with the API. Prefixes its errors with `Failed to <action> job: `. */
export async function changeJob(action: string, work: (api: Api) => Promise<void>): Promise<void> {
  await withApi(work).catch((error: unknown) => {
    if (!(error instanceof ServiceError)) throw error;
    const what = redact(`Failed to ${action} job: ${error.message}`);
    throw new ServiceError(error.code, what, { cause: error });
  });
}

/** Returns the job with this id or name. ServiceError `not_found`, also for a name of several jobs. */
export async function findJob({ client, anyOwner: headers }: Api, ref: string): Promise<Job> {
  if (JOB_ID.test(ref.trim())) {
    const found = await client.getJob({ path: { job_id: ref.trim() }, headers }).catch((error: unknown) => {
      if (error instanceof AgentApiError && error.code === "job_not_found") return undefined;
      throw error;
    });
    if (found) return found.data;
  }
  const { data: named } = await client.listJobs({ query: { name: ref, limit: JOB_PAGE }, headers });
  const [only, ...others] = named.data;
  if (only && others.length === 0) return only;
  if (only) throw ambiguous(ref, named.data);
  throw await unknown(client, ref, headers);
}

function ambiguous(ref: string, jobs: readonly Job[]): ServiceError {
  const ids = jobs.slice(0, MAX_SHOWN).map(({ id }) => id);
  const what = `Several jobs have the name ${JSON.stringify(ref)}. Use an id: ${ids.join(", ")}.`;
  return new ServiceError("not_found", what);
}

async function unknown(client: Api["client"], ref: string, headers: Api["anyOwner"]): Promise<ServiceError> {
  const { data: page } = await client.listJobs({ query: { limit: JOB_PAGE }, headers });
  if (page.data.length + page.broken.length === 0)
    return new ServiceError("not_found", "No jobs exist yet. Create one with `agentd cron create`.");
  const close = nearest(
    ref,
    page.data.map(({ name }) => name),
  );
  const hint =
    close === undefined ? "List the jobs with `agentd cron list`." : `Did you mean ${JSON.stringify(close)}?`;
  return new ServiceError("not_found", `Unknown job ${JSON.stringify(ref)}. ${hint}`);
}

/** Returns all jobs in these states, or in any without one, the newest first. */
export async function listJobs(
  { client, anyOwner: headers }: Api,
  state: readonly Job["state"][],
): Promise<Pick<JobList, "data" | "broken">> {
  const data: Job[] = [];
  const broken: JobList["broken"] = [];
  const states = state.length === 0 ? {} : { state: [...state] };
  for (let after: string | undefined; ;) {
    const query = { ...states, limit: JOB_PAGE, ...(after === undefined ? {} : { after }) };
    const page: JobList = (await client.listJobs({ query, headers })).data;
    data.push(...page.data);
    broken.push(...page.broken);
    if (!page.has_more || page.last_id === null) return { data, broken };
    after = page.last_id;
  }
}

/** Warns about what may keep a job from running or from sending its answer. */
export function warnOf({ warnings }: Job): void {
  for (const warning of warnings ?? []) warn(`Warning: ${masked(warning)}`);
}
