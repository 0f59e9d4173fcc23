import { ServiceError } from "../../base/errors.ts";
import { nearest } from "../../base/suggest.ts";
import { type Store, type Tx, writeOrTry } from "../../store/store.ts";
import type { CronJobRow } from "../../store/schema/tables.ts";
import { isOver, toJob, type Job, type JobDefinition, recordJob } from "./job.ts";
import * as moves from "./moves.ts";
import { findBlock } from "./check.ts";
import { parseSchedule } from "../schedule/text.ts";
import type { PreflightDeps } from "../deps.ts";
import {
  countJobs,
  deleteJob,
  findJobsNamed,
  listJobNames,
  listJobs,
  countUnsentMessages,
  listOccurrences,
  listOccurrencesById,
} from "../queries.ts";
import { toOccurrence, type Occurrence } from "./format.ts";

export interface JobList {
  /** In the order of their creation. */
  readonly jobs: readonly Job[];
  /** Rows that cannot be read. They do not affect other jobs, and can be removed by id. */
  readonly broken: readonly BrokenJob[];
}

export interface BrokenJob {
  readonly id: string;
  readonly name: string;
}

export interface RemovedJob {
  readonly id: string;
  readonly name: string;
  /** Undefined when it was broken. */
  readonly job: Job | undefined;
}

/** How a job is changed. */
export interface JobChangeOptions {
  /** Gets the job before the change, and may throw. */
  readonly check?: ((job: Job) => void) | undefined;
  /** Who makes the change, for the feed. */
  readonly actor?: string | undefined;
  /** True: everything is checked and nothing is stored. */
  readonly dryRun?: boolean | undefined;
  /** Runs in the transaction of the change. */
  readonly alsoRecord?: ((tx: Tx, job: Job) => Promise<void>) | undefined;
}

/** Attempts at one change while other processes change the same job. */
const MAX_ATTEMPTS = 8;
const MAX_REF_CHARACTERS = 1_000;
const MAX_CANDIDATES = 10;
const MAX_GUESSES = 500;

/**
 * Creates, reads and changes the jobs of a store, from any process. With an owner, those of the owner; else those of all,
 * and new ones belong to `default`. `ref` is an id, or a name in any case; ServiceError `job_not_found` when no job
 * matches, `invalid_request` when several jobs have the name.
 */
export class Jobs {
  readonly #store: Store;
  readonly #maxJobs: number;
  readonly #owner: string | undefined;

  constructor(
    store: Store,
    { maxJobs, owner }: { readonly maxJobs: number; readonly owner?: string | undefined },
  ) {
    this.#store = store;
    this.#maxJobs = maxJobs;
    this.#owner = owner;
  }

  /** ServiceError `invalid_request` for too many jobs, an existing id, or a time that has passed. */
  async create(
    definition: JobDefinition,
    start: moves.JobStart = {},
    { dryRun = false, actor, alsoRecord }: JobChangeOptions = {},
  ): Promise<Job> {
    return writeOrTry(this.#store, { dryRun }, async (tx) => {
      await this.#requireBelowLimit(tx);
      const made = moves.newJobRow(definition, { ...start, owner: this.#owner }, tx.nowMs);
      const { id } = made;
      if (await tx.find("cron_jobs", { id })) throw idTaken(id);
      await tx.insert("cron_jobs", [made]);
      recordJob(tx, "created", made, actor);
      const job = jobOf(made);
      await alsoRecord?.(tx, job);
      return job;
    });
  }

  async find(ref: string): Promise<Job> {
    return jobOf(await this.#row(ref));
  }

  /** Returns a job by its id; undefined when it does not exist or is broken. */
  async get(id: string): Promise<Job | undefined> {
    const row = await this.#find(id);
    return row && toJob(row);
  }

  /** Whether a row has this id, even a broken one. */
  async has(id: string): Promise<boolean> {
    return (await this.#find(id)) !== undefined;
  }

  /**
   * Returns the instant that `text` names in the zone of the job, Unix milliseconds. ServiceError `invalid_schedule` for a
   * text that is not a schedule, and for one that recurs.
   */
  async readTime(ref: string, text: string, nowMs = Date.now()): Promise<number> {
    const { definition } = await this.find(ref);
    const schedule = parseSchedule(text, { nowMs, zone: definition.zone });
    if (schedule.kind === "once") return schedule.atMs;
    throw new ServiceError(
      "invalid_schedule",
      `The time must be a single one, such as "in 20m" or "2026-12-24T18:00", but ${JSON.stringify(text)} recurs. To change the schedule, edit the job.`,
      { param: "at" },
    );
  }

  /** Returns why a job with this definition cannot run, in a sentence or two; undefined when it can. */
  findBlock(definition: JobDefinition, deps: PreflightDeps): Promise<string | undefined> {
    return findBlock(deps, definition);
  }

  /** Returns all jobs, by default without those that will not run again. */
  async list({ withOver = false }: { readonly withOver?: boolean } = {}): Promise<JobList> {
    const rows = await listJobs(this.#store, { owner: this.#owner });
    const read = rows.map((row) => ({ row, job: toJob(row) }));
    return {
      jobs: read.flatMap(({ job }) => (job && (withOver || !isOver(job.state)) ? [job] : [])),
      broken: read.flatMap(({ row, job }) => (job ? [] : [{ id: row.id, name: row.name }])),
    };
  }

  /**
   * Replaces the definition. `change` is called again when the job changed meanwhile. A new schedule restarts the job.
   * `isPaused` pauses or resumes it in the same transaction.
   */
  async edit(
    ref: string,
    change: (job: Job) => JobDefinition | Promise<JobDefinition>,
    { isPaused, pausedReason, ...options }: JobEditOptions = {},
  ): Promise<Job> {
    const { id } = await this.#row(ref);
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const row = await this.#row(id);
      const job = jobOf(row);
      options.check?.(job);
      const definition = await change(job);
      const changed = await this.#write(options, async (tx) => {
        const { nowMs } = tx;
        const edited = moves.redefine(job, definition, nowMs);
        const after = edited ? jobOf({ ...row, ...edited }) : job;
        const isMoved = isPaused === undefined ? pausedReason !== undefined : isPaused;
        const paused = isMoved
          ? moves.pause(after, { reason: pausedReason, nowMs })
          : isPaused === false && after.state === "paused"
            ? moves.resume(after, { nowMs })
            : undefined;
        return { job, move: edited || paused ? { ...edited, ...paused } : undefined };
      });
      if (changed) return changed;
    }
    throw tooBusy(id);
  }

  async pause(
    ref: string,
    { reason, ...options }: { readonly reason?: string | undefined } & JobChangeOptions = {},
  ): Promise<Job> {
    return this.#move(ref, options, (job, { nowMs }) => moves.pause(job, { reason, nowMs }));
  }

  /** Continues a repeating job at its next instant. `runNow` also runs it at once; `atMs` sets the time of its next run. */
  async resume(
    ref: string,
    options: {
      readonly runNow?: boolean | undefined;
      readonly atMs?: number | undefined;
    } & JobChangeOptions = {},
  ): Promise<Job> {
    const { runNow = false, atMs } = options;
    return this.#move(ref, options, async (job, tx) => {
      const manualAtMs = runNow ? await freeInstant(tx, job) : undefined;
      return moves.resume(job, { manualAtMs, atMs, nowMs: tx.nowMs });
    });
  }

  /**
   * Requests a run at once: its occurrence has the cause `manual` and the instant `manualAtMs` of the returned job.
   * A request before that run is claimed joins it. ServiceError `job_busy` while a run is running that must not overlap.
   */
  async run(ref: string, options: JobChangeOptions = {}): Promise<Job> {
    return this.#move(ref, { ...options, isRequest: true }, async (job, tx) =>
      moves.runNow(job, {
        manualAtMs: job.manualAtMs ?? (await freeInstant(tx, job)),
        nowMs: tx.nowMs,
      }),
    );
  }

  /**
   * Deletes the job and its history; a running run ends normally. With `unstarted`, an occurrence without a run never gets
   * one. The caller removes the output files. `check` gets the job unless it is broken.
   */
  async remove(
    ref: string,
    { check, actor, unstarted }: JobChangeOptions & { readonly unstarted?: boolean } = {},
  ): Promise<RemovedJob> {
    const { id } = await this.#row(ref);
    return this.#store.write(async (tx) => {
      // Occurrences are locked before their job.
      const row = await tx.find("cron_jobs", { id });
      if (!row) throw unknown(id);
      const job = toJob(row);
      if (job) check?.(job);
      await deleteJob(tx, id, { unstarted });
      recordJob(tx, "deleted", row, actor);
      return { id, name: row.name, job };
    });
  }

  /** Returns a page of occurrences, newest first; of all jobs without `ref`. ServiceError `invalid_cursor`. */
  async history(ref?: string, page: HistoryPage = {}): Promise<History> {
    const jobId = ref === undefined ? undefined : (await this.#row(ref)).id;
    return readHistory(this.#store, { jobId, owner: this.#owner }, page);
  }

  /** Returns the occurrences with these ids, oldest first. */
  async occurrences(ids: readonly string[]): Promise<readonly Occurrence[]> {
    return (await listOccurrencesById(this.#store, ids)).map(toOccurrence);
  }

  /** Returns how many messages of these occurrences are due or being sent; those that wait for a retry do not count. */
  countUnsentMessages(ids: readonly string[]): Promise<number> {
    return countUnsentMessages(this.#store, ids, Date.now());
  }

  async #move(
    ref: string,
    options: WriteOptions,
    decide: (job: Job, tx: Tx) => moves.Move | Promise<moves.Move>,
  ): Promise<Job> {
    const { id } = await this.#row(ref);
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const changed = await this.#write(options, async (tx) => {
        const row = await tx.find("cron_jobs", { id });
        if (!row) throw unknown(id);
        const job = jobOf(row);
        options.check?.(job);
        return { job, move: await decide(job, tx) };
      });
      if (changed) return changed;
    }
    throw tooBusy(id);
  }

  /** Undefined: the job changed meanwhile. */
  #write(
    options: WriteOptions,
    decide: (tx: Tx) => Promise<{ readonly job: Job; readonly move: moves.Move }>,
  ): Promise<Job | undefined> {
    return writeOrTry(this.#store, { dryRun: options.dryRun === true }, async (tx) => {
      const { job, move } = await decide(tx);
      const changed = await write(tx, job, move, options);
      if (changed) await options.alsoRecord?.(tx, changed);
      return changed;
    });
  }

  async #row(ref: string): Promise<CronJobRow> {
    // Databases refuse these characters, and no name contains them.
    if (ref.length > MAX_REF_CHARACTERS || /[\p{Cc}\p{Cs}]/u.test(ref)) throw unknown(ref.toWellFormed());
    const owner = this.#owner;
    const found = await this.#find(ref.trim());
    if (found) return found;
    const nameKey = moves.nameKey(ref);
    const named = await findJobsNamed(this.#store, { owner, nameKey, limit: MAX_CANDIDATES + 1 });
    const [only, ...others] = named;
    if (only && others.length === 0) return only;
    if (only) throw ambiguous(ref, named);
    throw unknown(ref, nearest(ref, await listJobNames(this.#store, { owner, limit: MAX_GUESSES })));
  }

  async #find(id: string): Promise<CronJobRow | undefined> {
    const row = await this.#store.find("cron_jobs", { id });
    return this.#owner === undefined || row?.owner === this.#owner ? row : undefined;
  }

  async #requireBelowLimit(tx: Tx): Promise<void> {
    if ((await countJobs(tx)) < this.#maxJobs) return;
    const what = `The limit of ${this.#maxJobs} jobs is reached (cron.max_jobs)`;
    throw new ServiceError("invalid_request", `${what}. Remove some; completed jobs count too.`);
  }
}

/** Returns the instant for a manual run now: no two occurrences of a job share one, even when the clock is set back. */
async function freeInstant(tx: Tx, job: Job): Promise<number> {
  const open = await tx.find("occurrences", { job_id: job.id, ended_at: null });
  moves.requireFree(job, open !== undefined);
  let atMs = tx.nowMs;
  while (await tx.find("occurrences", { job_id: job.id, scheduled_at: atMs })) atMs--;
  return atMs;
}

interface WriteOptions extends JobChangeOptions {
  /** True: a run is requested, which is not a new revision. */
  readonly isRequest?: boolean;
}

/** Undefined: the job changed meanwhile. */
async function write(
  tx: Tx,
  { id, revision, lockVersion }: Job,
  move: moves.Move,
  { isRequest = false, actor }: WriteOptions,
): Promise<Job | undefined> {
  if (move) {
    const columns = {
      ...move,
      revision: isRequest ? revision : revision + 1,
      lock_version: lockVersion + 1,
      updated_at: tx.nowMs,
    };
    if ((await tx.update("cron_jobs", { id, lock_version: lockVersion }, columns)) === 0) return undefined;
  }
  const row = await tx.find("cron_jobs", { id });
  if (!row) throw unknown(id);
  if (move) recordJob(tx, "updated", row, actor);
  return jobOf(row);
}

function jobOf(row: CronJobRow): Job {
  const job = toJob(row);
  if (job) return job;
  const what = `The job ${row.id} cannot be read: its record is broken`;
  throw new ServiceError("invalid_request", `${what}. Remove it by its id, and create it again.`, {
    param: "job",
  });
}

function idTaken(id: string): ServiceError {
  const what = `A job with the id ${id} exists already. Remove it first, or edit it.`;
  return new ServiceError("invalid_request", what, { param: "id" });
}

function unknown(ref: string, guess?: string): ServiceError {
  const hint = guess === undefined ? "" : ` Did you mean ${JSON.stringify(guess)}?`;
  const what = `No job matches ${JSON.stringify(ref.slice(0, 100))}.`;
  return new ServiceError("job_not_found", `${what}${hint} \`agentd cron list --all\` shows them all.`, {
    param: "job",
  });
}

function ambiguous(ref: string, rows: readonly CronJobRow[]): ServiceError {
  const ids = rows.slice(0, MAX_CANDIDATES).map(({ id }) => id);
  const more = rows.length > MAX_CANDIDATES ? " and more" : "";
  const what = `Several jobs are called ${JSON.stringify(ref.slice(0, 100))}: ${ids.join(", ")}${more}.`;
  return new ServiceError("invalid_request", `${what} Use an id.`, {
    param: "job",
    details: { ids },
  });
}

function tooBusy(id: string): ServiceError {
  const what = `The job ${id} kept changing meanwhile`;
  return new ServiceError("state_store_unavailable", `${what}. Try again.`, { param: "job" });
}

export interface JobEditOptions extends JobChangeOptions {
  readonly isPaused?: boolean | undefined;
  readonly pausedReason?: string | undefined;
}

export interface HistoryPage {
  /** Default 20, at most 500. */
  readonly limit?: number | undefined;
  /** `nextCursor` of the previous page. */
  readonly cursor?: string | undefined;
}

export interface History {
  /** Newest first, including open ones. */
  readonly occurrences: readonly Occurrence[];
  /** Absent on the last page. */
  readonly nextCursor?: string;
}

const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 500;
const OCCURRENCE_ID = /^occ_[0-9a-z]{26}$/;

async function readHistory(
  store: Store,
  whose: { readonly jobId: string | undefined; readonly owner: string | undefined },
  { limit = DEFAULT_LIMIT, cursor }: HistoryPage,
): Promise<History> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT) {
    throw new ServiceError("invalid_request", `limit must be a whole number from 1 to ${MAX_LIMIT}.`, {
      param: "limit",
    });
  }
  const before = cursor === undefined ? undefined : requireCursor(cursor);
  const rows = await listOccurrences(store, { ...whose, before, limit: limit + 1 });
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return {
    occurrences: page.map(toOccurrence),
    ...(rows.length > limit && last ? { nextCursor: last.id } : {}),
  };
}

function requireCursor(cursor: string): string {
  if (OCCURRENCE_ID.test(cursor)) return cursor;
  throw new ServiceError("invalid_cursor", "The cursor is invalid. Use `nextCursor` of a previous page.", {
    param: "cursor",
  });
}
