import { ServiceError } from "../../base/errors.ts";
import { nearest } from "../../base/nearest.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { CronJobRow } from "../../store/schema/tables.ts";
import { isOver, toJob, type Job, type JobDefinition } from "./job.ts";
import * as moves from "./moves.ts";
import { newJobRow, type JobStart } from "./moves.ts";
import { toOccurrence, type Occurrence } from "../tick/occurrence.ts";

export interface JobList {
  /** In the order in which they were made. */
  readonly jobs: readonly Job[];
  /** Rows that cannot be read. They stop nothing, and can be removed by their ids. */
  readonly broken: readonly BrokenJob[];
}

export interface BrokenJob {
  readonly id: string;
  readonly name: string;
}

export interface RemovedJob {
  readonly id: string;
  readonly name: string;
  /** Undefined: it was broken. */
  readonly job: Job | undefined;
}

/** Of one change, when others change the job at the same time. */
const MAX_ATTEMPTS = 8;
const MAX_REF_CHARACTERS = 1_000;
const MAX_CANDIDATES = 10;
const MAX_GUESSES = 500;

/**
 * The jobs of a store: made, looked at and changed, by any process. Looking changes nothing. `ref` is an id, or a name in
 * any case; ServiceError `not_found` when there is none, `invalid_request` when several have the name.
 */
export class Jobs {
  readonly #store: Store;
  readonly #maxJobs: number;

  constructor(store: Store, { maxJobs }: { readonly maxJobs: number }) {
    this.#store = store;
    this.#maxJobs = maxJobs;
  }

  /** ServiceError `invalid_request` for too many, an id that there is already, or a time that has passed. */
  async create(definition: JobDefinition, start: JobStart = {}): Promise<Job> {
    const row = await this.#store.write(async (tx) => {
      await this.#requireRoom(tx);
      const made = newJobRow(definition, start, tx.nowMs);
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

  /** By its id alone; undefined when there is none that can be read. */
  async get(id: string): Promise<Job | undefined> {
    const row = await this.#store.find("cron_jobs", { id });
    return row && toJob(row);
  }

  /** Whether there is a row of this id, be it broken. */
  async has(id: string): Promise<boolean> {
    return (await this.#store.find("cron_jobs", { id })) !== undefined;
  }

  /** Without those that are over, unless they are wanted. */
  async list({ withOver = false }: { readonly withOver?: boolean } = {}): Promise<JobList> {
    const rows = await this.#store.read
      .selectFrom("cron_jobs")
      .selectAll()
      .orderBy("created_at")
      .orderBy("id")
      .execute();
    const read = rows.map((row) => ({ row, job: toJob(row) }));
    return {
      jobs: read.flatMap(({ job }) => (job && (withOver || !isOver(job.state)) ? [job] : [])),
      broken: read.flatMap(({ row, job }) => (job ? [] : [{ id: row.id, name: row.name }])),
    };
  }

  /** `change` is called again when the job changed meanwhile. A new schedule begins anew, and revives a job that is over. */
  async edit(ref: string, change: (job: Job) => JobDefinition | Promise<JobDefinition>): Promise<Job> {
    const { id } = await this.#row(ref);
    for (let tries = 0; tries < MAX_ATTEMPTS; tries++) {
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

  /** A repeating job goes on with its next instant; `runNow`: and runs at once; `atMs`: begins at that time. */
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
   * Asks for a run at once, of which the occurrence has the cause `manual` and the instant `manualAtMs` of the job that is
   * returned. ServiceError `session_busy` while a run is at work that must not overlap.
   */
  async run(ref: string): Promise<Job> {
    return this.#move(ref, async (job, tx) =>
      moves.runNow(job, { manualAtMs: await freeInstant(tx, job), nowMs: tx.nowMs }),
    );
  }

  /** Takes the job and its history away; a run at work comes to its end. Its kept outputs are the caller's to remove. */
  async remove(ref: string): Promise<RemovedJob> {
    const row = await this.#row(ref);
    await this.#store.write(async (tx) => {
      // Ended occurrences are locked before their job, as by what notes how their messages went.
      await tx.db
        .deleteFrom("occurrences")
        .where("job_id", "=", row.id)
        .where("ended_at", "is not", null)
        .execute();
      await tx.db.deleteFrom("cron_jobs").where("id", "=", row.id).execute();
    });
    return { id: row.id, name: row.name, job: toJob(row) };
  }

  /** Newest first, what is at work included; of all jobs without `ref`. ServiceError `invalid_cursor`. */
  async history(ref?: string, page: HistoryPage = {}): Promise<History> {
    const jobId = ref === undefined ? undefined : (await this.#row(ref)).id;
    return readHistory(this.#store, jobId, page);
  }

  async #move(ref: string, decide: (job: Job, tx: Tx) => moves.Move | Promise<moves.Move>): Promise<Job> {
    const { id } = await this.#row(ref);
    for (let tries = 0; tries < MAX_ATTEMPTS; tries++) {
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
    // Databases refuse what no name can hold.
    if (ref.length > MAX_REF_CHARACTERS || /[\p{Cc}\p{Cs}]/u.test(ref)) throw unknown(ref.toWellFormed());
    const found = await this.#store.find("cron_jobs", { id: ref.trim() });
    if (found) return found;
    const named = await this.#store.read
      .selectFrom("cron_jobs")
      .selectAll()
      .where("name_key", "=", moves.nameKey(ref))
      .orderBy("created_at")
      .orderBy("id")
      .limit(MAX_CANDIDATES + 1)
      .execute();
    const [only, ...others] = named;
    if (only && others.length === 0) return only;
    if (only) throw ambiguous(ref, named);
    throw unknown(ref, await this.#guess(ref));
  }

  async #guess(ref: string): Promise<string | undefined> {
    const rows = await this.#store.read.selectFrom("cron_jobs").select("name").limit(MAX_GUESSES).execute();
    return nearest(
      ref,
      rows.map(({ name }) => name),
    );
  }

  async #requireRoom(tx: Tx): Promise<void> {
    const { count } = await tx.db
      .selectFrom("cron_jobs")
      .select(({ fn }) => fn.countAll().as("count"))
      .executeTakeFirstOrThrow();
    if (Number(count) < this.#maxJobs) return;
    const what = `There are ${this.#maxJobs} jobs, which is the limit (cron.max_jobs)`;
    throw new ServiceError("invalid_request", `${what}. Remove some; those that are over count too.`);
  }
}

/** For a run that is asked for now: two of one job never have one instant, whatever the clock does. */
async function freeInstant(tx: Tx, job: Job): Promise<number> {
  const open = await tx.find("occurrences", { job_id: job.id, ended_at: null });
  moves.requireFree(job, open !== undefined);
  let atMs = tx.nowMs;
  while (await tx.find("occurrences", { job_id: job.id, scheduled_at: atMs })) atMs--;
  return atMs;
}

/** Undefined: the job is another by now. */
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
  throw new ServiceError("invalid_request", `${what}. Remove it by its id, and make it anew.`, {
    param: "job",
  });
}

function idTaken(id: string): ServiceError {
  const what = `A job with the id ${id} is there already. Remove it first, or edit it.`;
  return new ServiceError("invalid_request", what, { param: "id" });
}

function unknown(ref: string, guess?: string): ServiceError {
  const hint = guess === undefined ? "" : ` Did you mean ${JSON.stringify(guess)}?`;
  const what = `There is no job ${JSON.stringify(ref.slice(0, 100))}.`;
  return new ServiceError("not_found", `${what}${hint} \`agentd cron list --all\` shows them all.`, {
    param: "job",
  });
}

function ambiguous(ref: string, rows: readonly CronJobRow[]): ServiceError {
  const ids = rows.slice(0, MAX_CANDIDATES).map(({ id }) => id);
  const more = rows.length > MAX_CANDIDATES ? " and more" : "";
  const what = `Several jobs are called ${JSON.stringify(ref.slice(0, 100))}: ${ids.join(", ")}${more}.`;
  return new ServiceError("invalid_request", `${what} Name one by its id.`, {
    param: "job",
    details: { ids },
  });
}

function tooBusy(id: string): ServiceError {
  const what = `The job ${id} changed again and again meanwhile`;
  return new ServiceError("state_store_unavailable", `${what}. Try once more.`, { param: "job" });
}

export interface HistoryPage {
  /** Default 20, at most 500. */
  readonly limit?: number | undefined;
  /** What the page before gave as `nextCursor`. */
  readonly cursor?: string | undefined;
}

export interface History {
  /** Newest first; what has no end yet is at work. */
  readonly occurrences: readonly Occurrence[];
  /** Absent on the last page. */
  readonly nextCursor?: string;
}

const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 500;
const OCCURRENCE_ID = /^occ_[0-9a-z]{26}$/;

export async function readHistory(
  store: Store,
  jobId: string | undefined,
  { limit = DEFAULT_LIMIT, cursor }: HistoryPage,
): Promise<History> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT) {
    throw new ServiceError("invalid_request", `limit is a whole number from 1 to ${MAX_LIMIT}.`, {
      param: "limit",
    });
  }
  let query = store.read.selectFrom("occurrences").selectAll();
  if (jobId !== undefined) query = query.where("job_id", "=", jobId);
  if (cursor !== undefined) query = query.where("id", "<", requireCursor(cursor));
  const rows = await query
    .orderBy("id", "desc")
    .limit(limit + 1)
    .execute();
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return {
    occurrences: page.map(toOccurrence),
    ...(rows.length > limit && last ? { nextCursor: last.id } : {}),
  };
}

function requireCursor(cursor: string): string {
  if (OCCURRENCE_ID.test(cursor)) return cursor;
  throw new ServiceError("invalid_cursor", "The cursor is not one that a history gave.", { param: "cursor" });
}
