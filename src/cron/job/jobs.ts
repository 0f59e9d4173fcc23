import { ServiceError } from "../../base/errors.ts";
import { nearest } from "../../base/nearest.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { CronJobRow } from "../../store/schema/tables.ts";
import { isOver, toJob, type Job, type JobDefinition } from "./job.ts";
import * as moves from "./moves.ts";
import { countJobs, deleteJob, findJobsNamed, listJobNames, listJobs, listOccurrences } from "../queries.ts";
import { toOccurrence, type Occurrence } from "../tick/occurrence.ts";

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

/** Attempts at one change while other processes change the same job. */
const MAX_ATTEMPTS = 8;
const MAX_REF_CHARACTERS = 1_000;
const MAX_CANDIDATES = 10;
const MAX_GUESSES = 500;

/**
 * Creates, reads and changes the jobs of a store, from any process. `ref` is an id, or a name in any case; ServiceError
 * `not_found` when no job matches, `invalid_request` when several jobs have the name.
 */
export class Jobs {
  readonly #store: Store;
  readonly #maxJobs: number;

  constructor(store: Store, { maxJobs }: { readonly maxJobs: number }) {
    this.#store = store;
    this.#maxJobs = maxJobs;
  }

  /** ServiceError `invalid_request` for too many jobs, an existing id, or a time that has passed. */
  async create(definition: JobDefinition, start: moves.JobStart = {}): Promise<Job> {
    const row = await this.#store.write(async (tx) => {
      await this.#requireBelowLimit(tx);
      const made = moves.newJobRow(definition, start, tx.nowMs);
      const { id } = made;
      if (await tx.find("cron_jobs", { id })) throw idTaken(id);
      await tx.insert("cron_jobs", [made]);
      return made;
    });
    return jobOf(row);
  }

  async find(ref: string): Promise<Job> {
    return jobOf(await this.#row(ref));
  }

  /** Returns a job by its id; undefined when it does not exist or is broken. */
  async get(id: string): Promise<Job | undefined> {
    const row = await this.#store.find("cron_jobs", { id });
    return row && toJob(row);
  }

  /** Whether a row has this id, even a broken one. */
  async has(id: string): Promise<boolean> {
    return (await this.#store.find("cron_jobs", { id })) !== undefined;
  }

  /** Returns all jobs, by default without those that will not run again. */
  async list({ withOver = false }: { readonly withOver?: boolean } = {}): Promise<JobList> {
    const rows = await listJobs(this.#store);
    const read = rows.map((row) => ({ row, job: toJob(row) }));
    return {
      jobs: read.flatMap(({ job }) => (job && (withOver || !isOver(job.state)) ? [job] : [])),
      broken: read.flatMap(({ row, job }) => (job ? [] : [{ id: row.id, name: row.name }])),
    };
  }

  /** Replaces the definition. `change` is called again when the job changed meanwhile. A new schedule restarts the job. */
  async edit(ref: string, change: (job: Job) => JobDefinition | Promise<JobDefinition>): Promise<Job> {
    const { id } = await this.#row(ref);
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const job = jobOf(await this.#row(id));
      const definition = await change(job);
      const changed = await this.#store.write((tx) =>
        write(tx, job, moves.redefine(job, definition, tx.nowMs)),
      );
      if (changed) return changed;
    }
    throw tooBusy(id);
  }

  async pause(ref: string, { reason }: { readonly reason?: string | undefined } = {}): Promise<Job> {
    return this.#move(ref, (job, { nowMs }) => moves.pause(job, { reason, nowMs }));
  }

  /** Continues a repeating job at its next instant. `runNow` also runs it at once; `atMs` sets the time of its next run. */
  async resume(
    ref: string,
    options: { readonly runNow?: boolean | undefined; readonly atMs?: number | undefined } = {},
  ): Promise<Job> {
    const { runNow = false, atMs } = options;
    return this.#move(ref, async (job, tx) => {
      const manualAtMs = runNow ? await freeInstant(tx, job) : undefined;
      return moves.resume(job, { manualAtMs, atMs, nowMs: tx.nowMs });
    });
  }

  /**
   * Requests a run at once: its occurrence has the cause `manual` and the instant `manualAtMs` of the returned job.
   * ServiceError `session_busy` while a run is running that must not overlap.
   */
  async run(ref: string): Promise<Job> {
    return this.#move(ref, async (job, tx) =>
      moves.runNow(job, { manualAtMs: await freeInstant(tx, job), nowMs: tx.nowMs }),
    );
  }

  /** Deletes the job and its history; a running run ends normally. The caller removes the output files. */
  async remove(ref: string): Promise<RemovedJob> {
    const row = await this.#row(ref);
    await this.#store.write((tx) => deleteJob(tx, row.id));
    return { id: row.id, name: row.name, job: toJob(row) };
  }

  /** Returns a page of occurrences, newest first; of all jobs without `ref`. ServiceError `invalid_cursor`. */
  async history(ref?: string, page: HistoryPage = {}): Promise<History> {
    const jobId = ref === undefined ? undefined : (await this.#row(ref)).id;
    return readHistory(this.#store, jobId, page);
  }

  async #move(ref: string, decide: (job: Job, tx: Tx) => moves.Move | Promise<moves.Move>): Promise<Job> {
    const { id } = await this.#row(ref);
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const changed = await this.#store.write(async (tx) => {
        const row = await tx.find("cron_jobs", { id });
        if (!row) throw unknown(id);
        const job = jobOf(row);
        return write(tx, job, await decide(job, tx));
      });
      if (changed) return changed;
    }
    throw tooBusy(id);
  }

  async #row(ref: string): Promise<CronJobRow> {
    // Databases refuse these characters, and no name contains them.
    if (ref.length > MAX_REF_CHARACTERS || /[\p{Cc}\p{Cs}]/u.test(ref)) throw unknown(ref.toWellFormed());
    const found = await this.#store.find("cron_jobs", { id: ref.trim() });
    if (found) return found;
    const named = await findJobsNamed(this.#store, moves.nameKey(ref), MAX_CANDIDATES + 1);
    const [only, ...others] = named;
    if (only && others.length === 0) return only;
    if (only) throw ambiguous(ref, named);
    throw unknown(ref, nearest(ref, await listJobNames(this.#store, MAX_GUESSES)));
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

/** Undefined: the job changed meanwhile. */
async function write(tx: Tx, job: Job, move: moves.Move): Promise<Job | undefined> {
  const { id, revision } = job;
  if (move) {
    const columns = { ...move, revision: revision + 1, updated_at: tx.nowMs };
    if ((await tx.update("cron_jobs", { id, revision }, columns)) === 0) return undefined;
  }
  const row = await tx.find("cron_jobs", { id });
  if (!row) throw unknown(id);
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
  return new ServiceError("not_found", `${what}${hint} \`agentd cron list --all\` shows them all.`, {
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
  jobId: string | undefined,
  { limit = DEFAULT_LIMIT, cursor }: HistoryPage,
): Promise<History> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT) {
    throw new ServiceError("invalid_request", `limit must be a whole number from 1 to ${MAX_LIMIT}.`, {
      param: "limit",
    });
  }
  const before = cursor === undefined ? undefined : requireCursor(cursor);
  const rows = await listOccurrences(store, { jobId, before, limit: limit + 1 });
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
