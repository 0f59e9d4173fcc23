/** Tables of work that must survive a crash: claims, outgoing messages, received webhooks, scheduled jobs. */
import { table } from "./define.ts";

/** Once-only work: a row is a claim on (scope, key). */
export const ledger = table(
  {
    scope: "text",
    key: "text",
    /** Hash of what the key was first used with; another fingerprint under the same key is a conflict. */
    fingerprint: "text",
    /** claimed or done. */
    status: "text",
    owner: "text",
    /** JSON: the result of the work. */
    result: "text?",
    created_at: "integer",
    /** While claimed: when another process may reclaim it. When done: when the row may be deleted. */
    expires_at: "integer",
  },
  ["scope", "key"],
  { by_expiry: { columns: ["expires_at"] } },
);

const PENDING = "status in ('due', 'leased')";

/** Messages to targets. `available_at` doubles as the end of the lease. */
export const outbox = table(
  {
    id: "text",
    target: "text",
    /** JSON. */
    payload: "text",
    /** What the message is sent for: a run or a delivery id. */
    ref: "text?",
    /** due, leased (being sent), delivered, dead (given up), unknown (it may have arrived) or dropped (by a person). */
    status: "text",
    attempts: "integer",
    /** 0: as many as the target's delays allow. */
    max_attempts: "integer",
    available_at: "integer",
    lease_owner: "text?",
    last_error: "text?",
    created_at: "integer",
    done_at: "integer?",
    /** Messages with the same ordering key are sent one after the other; null: sent at any time. */
    ordering_key: "text?",
    /** Senders look for work queue by queue: the platform, or the whole address of a message without an ordering key. */
    queue: "text",
    /** 1: an older message with the same ordering key is pending, and senders skip this one. */
    blocked: "integer",
    /** Parts of a long message that have arrived. */
    parts_sent: "integer",
    /** When a person last retried it. */
    retried_at: "integer?",
    /** When the latest attempt began, or the latest part of it. */
    attempted_at: "integer?",
    /** When the first attempt with an unknown outcome began: the platform may have accepted it. */
    uncertain_at: "integer?",
    /** When the request of the latest attempt began; null: it has not, or the platform recognises repeats. */
    started_at: "integer?",
    /** JSON list of the latest finished attempts; see AttemptRecord in src/store/outbox/outbox.ts. */
    attempt_log: "text?",
  },
  ["id"],
  {
    done: { columns: ["done_at"], where: "done_at is not null" },
    // Blocked messages are left out: a long line behind one chat costs senders nothing.
    ready: { columns: ["queue", "available_at", "id"], where: `${PENDING} and blocked = 0` },
    by_ordering_key: { columns: ["ordering_key", "id"], where: PENDING },
    leased: { columns: ["ordering_key"], where: "status = 'leased'" },
    failed: { columns: ["status", "id"], where: "status in ('dead', 'unknown', 'dropped')" },
    by_ref: { columns: ["ref"], where: "ref is not null" },
  },
);

/** A request that the webhook receiver accepted as genuine, and its result. */
export const deliveries = table(
  {
    /** Ours; ids sort by their time. */
    id: "text",
    route: "text",
    /** The sender's id. */
    delivery_id: "text",
    event: "text",
    /** accepted, running, completed, failed, delivered, ignored, duplicate, refused or interrupted. */
    status: "text",
    /** Why, where the status does not say it all. */
    reason: "text?",
    /** JSON: the result of each stage that it passed, in order. */
    stages: "text",
    /** JSON object without secret headers. */
    headers: "text",
    run_id: "text?",
    /** The message that is sent for it. */
    outbox_id: "text?",
    /** The delivery that this one repeats on request. */
    replay_of: "text?",
    created_at: "integer",
    ended_at: "integer?",
  },
  ["id"],
  {
    // Ids sort by their time: a route's newest come first without a sort.
    by_route: { columns: ["route", "id"] },
    open: { columns: ["id"], where: "ended_at is null" },
  },
);

/** The large part of a delivery, in a row of its own that never changes: each update would rewrite all of it. */
export const deliveryBodies = table(
  {
    /** The delivery's. */
    id: "text",
    /** The body as it came, as far as it is text. */
    payload: "text?",
    /** The rendered prompt or message. */
    rendered: "text?",
  },
  ["id"],
);

/** The newest event of a webhook's route and key, until it is quiet; see Coalescer in src/webhook/receive/coalesce.ts. */
export const pendingEvents = table(
  {
    /** Digest of the route and the key. */
    id: "text",
    /** Id of its row in deliveries. */
    delivery: "text",
    /** JSON: the prompt for the agent. */
    prompt: "text",
    /** Number of older events that it replaced. */
    superseded: "integer",
    /** When the first of them came. */
    first_at: "integer",
    due_at: "integer",
  },
  ["id"],
  { by_due: { columns: ["due_at", "id"] } },
);

/** A scheduled job. Times in milliseconds since the epoch. */
export const cronJobs = table(
  {
    /** 12 hex digits. */
    id: "text",
    name: "text",
    /** The name in lower case: commands find the job by it. */
    name_key: "text",
    /** JSON: what the user defined; see JobDefinition in src/cron/job/job.ts. */
    definition: "text",
    /** Grows with every change but those at the end of a run: a decision about a row holds for this revision only. */
    revision: "integer",
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
  },
);

/** An instant at which a job was due, and its result. One row an instant, whichever process sees it. */
export const occurrences = table(
  {
    /** Ids sort by the time of the claim. */
    id: "text",
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
