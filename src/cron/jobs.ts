import { ServiceError } from "../base/errors.ts";
import type { Store } from "../store/store.ts";
import type { CronJobRow } from "../store/tables.ts";
import type { Job, JobDefinition } from "./job.ts";
import { toJob } from "./job.ts";
import { nextRunMs } from "./instants.ts";
import { dueAtMs } from "./upcoming.ts";

/** The jobs of a store: made, looked at and changed. Looking changes nothing. */
export class Jobs {
  readonly #store: Store;
  readonly #maxJobs: number;

  constructor(store: Store, { maxJobs }: { readonly maxJobs: number }) {
    this.#store = store;
    this.#maxJobs = maxJobs;
  }

  /** ServiceError `invalid_request` for too many. */
  async create(definition: JobDefinition): Promise<Job> {
    const id = crypto.randomUUID().replaceAll("-", "").slice(0, 12);
    const row = await this.#store.write(async (tx) => {
      const { count } = await tx.db
        .selectFrom("cron_jobs")
        .select(({ fn }) => fn.countAll().as("count"))
        .executeTakeFirstOrThrow();
      if (Number(count) >= this.#maxJobs) {
        throw new ServiceError(
          "invalid_request",
          `There are ${this.#maxJobs} jobs, which is the limit (cron.max_jobs). Remove some.`,
        );
      }
      const made = newRow(id, definition, tx.nowMs);
      await tx.insert("cron_jobs", [made]);
      return made;
    });
    return jobOf(row);
  }

  /** In the order in which they were made. Broken rows are left out. */
  async list(): Promise<readonly Job[]> {
    const rows = await this.#store.read
      .selectFrom("cron_jobs")
      .selectAll()
      .orderBy("created_at")
      .orderBy("id")
      .execute();
    return rows.flatMap((row) => toJob(row) ?? []);
  }
}

function newRow(id: string, definition: JobDefinition, nowMs: number): CronJobRow {
  const { schedule, zone, name } = definition;
  const next = schedule.kind === "once" ? schedule.atMs : nextRunMs(schedule, nowMs, zone);
  const upcoming = {
    state: "scheduled",
    nextRunAtMs: next,
    manualAtMs: undefined,
    retryAtMs: undefined,
  } as const;
  return {
    id,
    name,
    name_key: name.toLowerCase(),
    definition: JSON.stringify(definition),
    revision: 1,
    state: "scheduled",
    due_at: dueAtMs({ id, definition }, upcoming, nowMs) ?? null,
    next_run_at: next ?? null,
    manual_at: null,
    retry_at: null,
    retries: 0,
    repeat_done: 0,
    failure_streak: 0,
    last_run_at: null,
    last_status: null,
    last_error: null,
    last_delivery_error: null,
    last_occurrence: null,
    paused_at: null,
    paused_reason: null,
    created_at: nowMs,
    updated_at: nowMs,
  };
}

function jobOf(row: CronJobRow): Job {
  const job = toJob(row);
  if (!job) throw new TypeError(`The job ${row.id} was written in a form that cannot be read.`);
  return job;
}
