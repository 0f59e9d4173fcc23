/** The tables of scheduled jobs. */
import { table } from "./define.ts";

/** A scheduled job. Times in milliseconds since the epoch. */
export const cronJobs = table(
  {
    /** 12 hex digits. */
    id: "text",
    /** Whose job it is: it runs, spends and delivers as them. */
    owner: "text",
    name: "text",
    /** The name in lower case: commands find the job by it. */
    name_key: "text",
    /** JSON: what the user defined; see JobDefinition in src/cron/job/job.ts. */
    definition: "text",
    /** Grows when people change the job: its definition, or whether it is paused. Runs do not change it. */
    revision: "integer",
    /**
     * Grows with every change except those at the end of a run: a decision about a row is valid for this version only.
     */
    lock_version: "integer",
    /** scheduled, paused, completed, missed or error. */
    state: "text",
    /** When the scheduler looks at the job: the first of the next three, with the jitter; null while none is set. */
    due_at: "integer?",
    /** The next instant of the schedule. */
    next_run_at: "integer?",
    /** When a user requested a run that has not begun. */
    manual_at: "integer?",
    /** When a run that never reached a model is retried. */
    retry_at: "integer?",
    /** Retries in a row. */
    retries: "integer",
    /** Instants of the schedule that ran. */
    repeat_done: "integer",
    /** Failed runs since the last successful one. */
    failure_streak: "integer",
    last_run_at: "integer?",
    /** ok, error, delivery_failed, blocked_config, unknown or missed. */
    last_status: "text?",
    last_error: "text?",
    last_delivery_error: "text?",
    /** The occurrence that the last_* columns describe: its messages may end long after it. */
    last_occurrence: "text?",
    paused_at: "integer?",
    paused_reason: "text?",
    created_at: "integer",
    updated_at: "integer",
  },
  ["id"],
  {
    due: { columns: ["due_at", "id"], where: "due_at is not null" },
    by_state: { columns: ["state", "last_status"] },
    by_name: { columns: ["name_key"] },
    by_time: { columns: ["created_at", "id"] },
    by_owner: { columns: ["owner", "created_at", "id"] },
  },
);

/** An instant at which a job was due, and its result. One row per instant, whichever process handles it. */
export const occurrences = table(
  {
    /** Ids sort by the time of the claim. */
    id: "text",
    /** The job's. */
    owner: "text",
    job_id: "text",
    job_name: "text",
    scheduled_at: "integer",
    /** schedule, manual or retry. */
    cause: "text",
    /** on_time, late or catch_up. */
    timing: "text",
    /** claimed, running, ok, failed, missed, skipped or unknown. */
    status: "text",
    /** Why, where the status does not say it all. */
    reason: "text?",
    /** A missed row covers instants up to this one, and their number. */
    covers_until: "integer?",
    covers_count: "integer",
    /** The process that handles it while it has no run; after that the run's session is leased. */
    lease_owner: "text?",
    lease_until: "integer?",
    claimed_at: "integer",
    started_at: "integer?",
    ended_at: "integer?",
    run_id: "text?",
    session_id: "text?",
    /** Name of the file in the folder of the job's outputs. */
    output_file: "text?",
    /** pending, delivered, failed, unknown, silent or none; null before the end. */
    delivery_status: "text?",
    delivery_error: "text?",
  },
  ["id"],
  {
    once: { columns: ["job_id", "scheduled_at", "cause"], isUnique: true },
    by_job: { columns: ["job_id", "id"] },
    open: { columns: ["job_id"], where: "ended_at is null" },
    ended: { columns: ["ended_at"], where: "ended_at is not null" },
    by_owner: { columns: ["owner", "id"] },
    by_time: { columns: ["owner", "scheduled_at"] },
    problems: {
      columns: ["owner", "id"],
      where: "status in ('missed', 'failed', 'unknown', 'skipped')",
    },
  },
);

/** A process that looks for due jobs. */
export const cronTickers = table(
  {
    owner: "text",
    started_at: "integer",
    ticked_at: "integer",
    succeeded_at: "integer?",
    last_error: "text?",
    /** When it last found jobs that a fast clock had postponed, and their number. */
    corrected_at: "integer?",
    corrected_jobs: "integer?",
  },
  ["owner"],
);
