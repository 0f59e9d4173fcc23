/** Scheduled jobs over HTTP. */
import type { JobRun } from "../../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../../base/errors.ts";
import { redact } from "../../../base/observe.ts";
import { jobEntry, occurrenceEntry, schedulerEntry, toOccurrence } from "../../../cron/job/format.ts";
import { changeJob, createJobContext, defineJob, type JobContext } from "../../../cron/job/input.ts";
import { toJob, toolsetNames, type Job, type JobChange, type JobInput } from "../../../cron/job/job.ts";
import { Jobs, type JobChangeOptions } from "../../../cron/job/jobs.ts";
import { jobWarnings, requireSkills } from "../../../cron/job/warnings.ts";
import { listJobPage, listRunningSessions } from "../../../cron/queries.ts";
import { removeOutputs } from "../../../cron/run/end.ts";
import { matchingTimes, nextRuns, timeEntry } from "../../../cron/schedule/times.ts";
import { readCronStatus } from "../../../cron/tick/status.ts";
import type { OccurrenceRow } from "../../../store/schema/tables.ts";
import type { HttpContext, HttpDeps } from "../../deps.ts";
import { whileWaiting, type WaitEnd } from "../../edge/answer.ts";
import type { HttpRequest, HttpResponse } from "../../edge/contract.ts";
import type { RunSubscribers } from "../../runs/read.ts";
import { eventCursor } from "../feed.ts";
import { chooseFolder } from "../folder.ts";
import { listBody, numberCursor, ownerFilter, timeWindow } from "../page.ts";
import { actOnce, checkVersion, dryRunHeader, isUnchanged, replayedHeader } from "../write.ts";

/** GET /v1/jobs: the newest first. */
export async function listJobs(
  { query, ctx }: HttpRequest<"listJobs", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listJobs">> {
  const { limit, state: states, last_status: lastStatuses, name, q: text } = query;
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  const rows = await listJobPage(deps.store, {
    ...ownerFilter(ctx),
    states,
    lastStatuses,
    text,
    nameKey: name?.trim().normalize("NFC").toLowerCase(),
    after: positionIn(query.after),
    limit: limit + 1,
  });
  const body = listBody(rows, limit, {
    positionOf: (row) => `${row.created_at}-${row.id}`,
    show: (row) => ({ row, job: toJob(row) }),
  });
  const data = body.data.flatMap(({ job }) => (job ? [jobEntry(job)] : []));
  const broken = body.data.flatMap(({ job, row }) => (job ? [] : [{ id: row.id, name: redact(row.name) }]));
  return { status: 200, headers, body: { ...body, data, broken } };
}

/** ServiceError `invalid_cursor`. */
function positionIn(after: string | undefined): { createdAtMs: number; id: string } | undefined {
  if (after === undefined) return undefined;
  const [, at, id] = /^(\d{1,15})-([0-9a-f]{12})$/.exec(after) ?? [];
  if (id !== undefined) return { createdAtMs: Number(at), id };
  const what = "after is not a position of this list. Use last_id of the previous page.";
  throw new ServiceError("invalid_cursor", what, { param: "after" });
}

/** GET /v1/jobs/{job_id} */
export async function getJob(
  { path, headers, ctx }: HttpRequest<"getJob", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"getJob">> {
  const job = await findJob(path.job_id, ctx, deps);
  const etag = tagOf(job);
  if (isUnchanged(headers["if-none-match"], etag)) return { status: 304, headers: { etag } };
  return { status: 200, headers: { etag }, body: jobEntry(job, { nextRuns: nextRuns(job) }) };
}

/** POST /v1/jobs */
export async function createJob(
  { query, headers, body, ctx }: HttpRequest<"createJob", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"createJob">> {
  const { dry_run: dryRun } = query;
  const jobs = jobsOf(ctx, deps);
  let created: Job | undefined;
  const { result, isReplayed } = await actOnce<Made>(
    { ctx, key: dryRun ? undefined : headers["idempotency-key"], operation: "createJob", content: body },
    deps,
    async (record) => {
      const definition = await defineJob(
        withoutNull(await readFields(body, ctx, deps)),
        contextOf(jobs, deps),
      );
      const start = { isPaused: body.paused === true, pausedReason: body.paused_reason ?? undefined };
      const options = {
        dryRun,
        actor: ctx.identity.name,
        alsoRecord: (tx: Tx, { id }: Job) => record(tx, { id }),
      };
      created = await jobs.create(definition, start, options);
      return { id: created.id };
    },
  );
  const job = created ?? (await findJob(result.id, ctx, deps));
  return {
    status: 201,
    headers: {
      ...(dryRun ? {} : { location: `/v1/jobs/${job.id}` }),
      etag: tagOf(job),
      ...dryRunHeader(dryRun),
      ...replayedHeader(isReplayed),
    },
    body: await showChanged(job, deps),
  };
}

type Tx = Parameters<NonNullable<JobChangeOptions["alsoRecord"]>>[0];

/** What is kept for a repeated request. */
interface Made {
  readonly id: string;
}

/** PATCH /v1/jobs/{job_id}: a merge patch, all of it or nothing. An active run continues. */
export async function updateJob(
  { path, query, headers, body, ctx }: HttpRequest<"updateJob", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"updateJob">> {
  const { id, definition: before } = await findJob(path.job_id, ctx, deps);
  const { dry_run: dryRun } = query;
  const jobs = jobsOf(ctx, deps);
  const change = await readFields(body, ctx, deps, before.skills);
  const context = contextOf(jobs, deps);
  const job = await jobs.edit(id, ({ definition }) => changeJob(definition, change, context), {
    ...versionCheck(headers),
    dryRun,
    actor: ctx.identity.name,
    isPaused: body.paused === undefined ? undefined : body.paused === true,
    pausedReason: body.paused_reason ?? undefined,
  });
  return {
    status: 200,
    headers: { etag: tagOf(job), ...dryRunHeader(dryRun) },
    body: await showChanged(job, deps),
  };
}

/** DELETE /v1/jobs/{job_id}. With `stop`, stops its active runs, after nothing can start another. */
export async function deleteJob(
  { path, query, headers, ctx }: HttpRequest<"deleteJob", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"deleteJob">> {
  const jobs = jobsOf(ctx, deps);
  // A broken row can be deleted too.
  if (!(await jobs.has(path.job_id))) throw jobNotFound(path.job_id);
  const { keep_outputs: keepsOutputs, stop } = query;
  const options = { ...versionCheck(headers), actor: ctx.identity.name, unstarted: stop };
  const { id } = await jobs.remove(path.job_id, options);
  if (stop) {
    const { name: by } = ctx.identity;
    const how = { reason: `its job is deleted by http:${by}`, by, timeoutMs: STOP_MS };
    const sessions = await listRunningSessions(deps.store, id);
    await Promise.all(sessions.map((session) => deps.agent.endRuns(session, how)));
  }
  if (!keepsOutputs) await removeOutputs(deps.jobs.outputFolder, id);
  return { status: 200, body: { id, object: "agent.job", deleted: true } };
}

/** How long a deletion waits for runs that it stops. */
const STOP_MS = 30_000;

/** POST /v1/jobs/{job_id}/pause */
export async function pauseJob(
  request: HttpRequest<"pauseJob", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"pauseJob">> {
  const { body, ctx } = request;
  const move = (id: string, options: JobChangeOptions) =>
    jobsOf(ctx, deps).pause(id, { ...options, reason: body.reason });
  return moved("pauseJob", request, deps, move);
}

/** POST /v1/jobs/{job_id}/resume */
export async function resumeJob(
  request: HttpRequest<"resumeJob", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"resumeJob">> {
  const { body, ctx } = request;
  const { run_now: runNow = false, at } = body;
  if (runNow && at !== undefined) {
    throw new ServiceError("invalid_request", "run_now and at cannot be combined.", { param: "at" });
  }
  const jobs = jobsOf(ctx, deps);
  const move = async (id: string, options: JobChangeOptions) => {
    const atMs = at === undefined ? undefined : await jobs.readTime(id, at, deps.clock.now());
    return jobs.resume(id, { ...options, runNow, atMs });
  };
  return moved("resumeJob", request, deps, move);
}

async function moved<K extends "pauseJob" | "resumeJob">(
  operation: K,
  { path, headers, body, ctx }: HttpRequest<"pauseJob" | "resumeJob", HttpContext>,
  deps: HttpDeps,
  move: (id: string, options: JobChangeOptions) => Promise<Job>,
) {
  const { id } = await findJob(path.job_id, ctx, deps);
  const once = { ctx, key: headers["idempotency-key"], operation, content: [id, body] };
  const { isReplayed } = await actOnce<Made>(once, deps, async (record) => {
    const alsoRecord = (tx: Tx) => record(tx, { id });
    await move(id, { ...versionCheck(headers), actor: ctx.identity.name, alsoRecord });
    return { id };
  });
  const job = await findJob(id, ctx, deps);
  return {
    status: 200 as const,
    headers: { etag: tagOf(job), ...replayedHeader(isReplayed) },
    body: await showChanged(job, deps),
  };
}

/** What is kept for a repeated request of a run. */
interface Requested extends Made {
  readonly scheduledAtMs: number;
}

/** POST /v1/jobs/{job_id}/run. With `wait`, answers when the run has ended. */
export async function runJob(
  { path, query, headers, ctx, raw }: HttpRequest<"runJob", HttpContext>,
  deps: HttpDeps,
  { subscribers }: { readonly subscribers: RunSubscribers },
): Promise<HttpResponse<"runJob">> {
  const { id } = await findJob(path.job_id, ctx, deps);
  const { wait = 0 } = query;
  const release = wait > 0 ? subscribers.enter(id) : () => {};
  try {
    const from = await deps.store.feed.head();
    const once = { ctx, key: headers["idempotency-key"], operation: "runJob", content: [id] };
    const { result, isReplayed } = await actOnce<Requested>(once, deps, async (record) => {
      const alsoRecord = (tx: Tx, job: Job) => record(tx, requestOf(job));
      const options = { ...versionCheck(headers), actor: ctx.identity.name, alsoRecord };
      return requestOf(await jobsOf(ctx, deps).run(id, options));
    });
    if (wait > 0) await ended(result, deps, { from, waitMs: wait * 1000, client: raw.signal });
    const row = await occurrenceOf(result, deps);
    const body: JobRun = {
      object: "agent.job.run",
      job: await showChanged(await findJob(id, ctx, deps), deps),
      scheduled_at: result.scheduledAtMs / 1000,
      occurrence: row ? occurrenceEntry(toOccurrence(row)) : null,
    };
    return { status: 202, headers: replayedHeader(isReplayed), body };
  } finally {
    release();
  }
}

function requestOf({ id, manualAtMs = 0 }: Job): Requested {
  return { id, scheduledAtMs: manualAtMs };
}

function occurrenceOf({ id, scheduledAtMs }: Requested, { store }: HttpDeps) {
  return store.find("occurrences", { job_id: id, scheduled_at: scheduledAtMs, cause: "manual" });
}

/** Resolves when the run has ended, at the timeout, or when the client disconnects. */
function ended(
  run: Requested,
  deps: HttpDeps,
  until: WaitEnd & { readonly from: Awaited<ReturnType<HttpDeps["store"]["feed"]["head"]>> },
): Promise<void> {
  const { store, clock } = deps;
  const hasEnded = (row: OccurrenceRow | undefined) => row !== undefined && row.ended_at !== null;
  const idle = (run: () => void) => clock.after(RECHECK_MS, run);
  return whileWaiting(clock, until, async (signal) => {
    if (hasEnded(await occurrenceOf(run, deps))) return;
    for await (const { rows } of store.feed.follow(until.from, { signal, idle })) {
      const isAbout = rows.length === 0 || rows.some(({ data }) => data["job_id"] === run.id);
      if (isAbout && hasEnded(await occurrenceOf(run, deps))) return;
    }
  });
}

/** Time without a change after which the occurrence is read anyway. */
const RECHECK_MS = 5_000;

/** GET /v1/jobs/{job_id}/times */
export async function listJobTimes(
  { path, query, ctx }: HttpRequest<"listJobTimes", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listJobTimes">> {
  const job = await findJob(path.job_id, ctx, deps);
  const { fromMs = deps.clock.now(), toMs = Number.POSITIVE_INFINITY } = timeWindow(query);
  const after = numberCursor(query.after);
  const startMs = after === undefined ? fromMs : Math.max(fromMs, after + 1);
  const times: number[] = [];
  for (const atMs of matchingTimes(job, startMs)) {
    if (atMs >= toMs || times.length > query.limit) break;
    times.push(atMs);
  }
  const body = listBody(times, query.limit, {
    positionOf: String,
    show: (atMs) => timeEntry(job.definition, atMs),
  });
  return { status: 200, body };
}

/** GET /v1/scheduler */
export async function getScheduler(
  { ctx }: HttpRequest<"getScheduler", HttpContext>,
  { store, clock, jobs }: HttpDeps,
): Promise<HttpResponse<"getScheduler">> {
  const status = await readCronStatus(store, { nowMs: clock.now(), ...ownerFilter(ctx) });
  return { status: 200, body: schedulerEntry(status, jobs.settings) };
}

export function jobsOf(ctx: HttpContext, { store, jobs }: HttpDeps): Jobs {
  return new Jobs(store, { maxJobs: jobs.settings.maxJobs, ...ownerFilter(ctx) });
}

/** Returns a job of the caller's owner by its id. ServiceError `job_not_found`. */
async function findJob(id: string, ctx: HttpContext, deps: HttpDeps): Promise<Job> {
  const jobs = jobsOf(ctx, deps);
  // Commands also know jobs by their names; paths do not.
  if (!(await jobs.has(id))) throw jobNotFound(id);
  return jobs.find(id);
}

function jobNotFound(id: string): ServiceError {
  return new ServiceError(
    "job_not_found",
    `Job ${JSON.stringify(id)} does not exist. GET /v1/jobs lists them.`,
  );
}

/** Runs and the scheduler do not change the revision. */
function tagOf({ revision }: Job): string {
  return `"${revision}"`;
}

function versionCheck(headers: { readonly "if-match"?: string | undefined }): JobChangeOptions {
  return { check: (job) => checkVersion(headers["if-match"], tagOf(job)) };
}

/** Shows a job after a change, with what people should know about it. */
async function showChanged(job: Job, { jobs }: HttpDeps) {
  return jobEntry(job, { nextRuns: nextRuns(job), warnings: await jobWarnings(jobs, job) });
}

/** Checks the folder and the skills that the job did not have before, and returns the fields of a body. */
async function readFields(
  body: HttpRequest<"updateJob", HttpContext>["body"],
  ctx: HttpContext,
  deps: HttpDeps,
  knownSkills: readonly string[] = [],
): Promise<JobChange> {
  const { jobs } = deps;
  const { skills } = body;
  const workdir = await folderOf(body, ctx, deps);
  const where = { cwd: workdir || jobs.workspace, folder: jobs.skillsFolder };
  const newSkills = (skills ?? []).filter((name) => !knownSkills.includes(name.trim()));
  await requireSkills(jobs.skills, newSkills, where);
  return {
    schedule: body.schedule,
    prompt: body.prompt,
    name: body.name,
    deliver: body.deliver,
    failureDeliver: body.failure_deliver,
    repeat: body.repeat,
    skills,
    script: body.script,
    isScriptOnly: body.no_agent,
    contextFrom: body.context_from,
    workdir,
    model: body.model,
    reasoningEffort: body.reasoning_effort,
    toolsets: body.toolsets,
    tokenBudget: body.token_budget,
    inactivitySeconds: body.inactivity_seconds,
    zone: body.time_zone,
    catchUp: body.catch_up,
    misfireGraceSeconds: body.misfire_grace_seconds,
    overlap: body.overlap,
    jitterSeconds: body.jitter_seconds,
  };
}

/** Returns the working folder that the caller may give a job. ServiceError `invalid_request`, `insufficient_scope`. */
export async function folderOf(
  { workdir: given }: { readonly workdir?: string | null | undefined },
  { identity }: HttpContext,
  { settings }: HttpDeps,
): Promise<string | null | undefined> {
  const folder = typeof given === "string" ? given.trim() : given;
  return folder ? chooseFolder(folder, settings.workspaceRoots, identity, "workdir") : folder;
}

/** A new job has no values that null could reset. */
function withoutNull(change: JobChange): JobInput {
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== null)) as JobInput;
}

export function contextOf(
  jobs: Jobs,
  { jobs: { settings, models, toolsets, scriptsFolder }, clock }: HttpDeps,
): JobContext {
  return createJobContext({
    nowMs: clock.now(),
    zone: settings.zone,
    models,
    toolsets: toolsetNames(toolsets),
    findJob: (ref) => jobs.find(ref),
    scriptsFolder,
  });
}
