/**
 * Every table of the database, defined once: row types, column lists and the migration derive from it.
 * Both databases return text ids, epoch-millisecond integers, JSON as text and 0/1 flags, so one definition serves both.
 */
import { type RowOf, table } from "./define.ts";
import { cronJobs, cronTickers, occurrences } from "./cron-tables.ts";
import { consoleTables } from "./console-tables.ts";
import { usageTables } from "./usage-tables.ts";

// The agent: sessions, their journal, and what their runs ask and use

const sessions = table(
  {
    id: "text",
    /** Whose session it is: the owner of the API key that created it. Keys of other owners do not see it. */
    owner: "text",
    /** The client's own stable name for the conversation; it selects the owner's newest session with this key. */
    session_key: "text?",
    /** The surface that created it: http, rpc, acp, webhook, cron, embed. */
    source: "text",
    title: "text?",
    /** `provider:model` chosen for the session; null follows the configuration. */
    model: "text?",
    cwd: "text?",
    /** JSON object: the session's settings; see SessionSettings in src/agent/session/session.ts. */
    meta: "text",
    /** 1: created for one stateless request, deleted with its run. */
    transient: "integer",
    /** Number of the last event; events are numbered 1.. without gaps. */
    last_seq: "integer",
    /** Number of the last message. */
    last_message: "integer",
    /** Runs of the session that wait for their turn. */
    queued: "integer",
    /** The process that may run a turn; null when no process does. */
    lease_owner: "text?",
    lease_until: "integer",
    created_at: "integer",
    updated_at: "integer",
    /** The session that this one was branched from, or works for. */
    parent_id: "text?",
    /** First session of the line of branches; null: this one. */
    root_id: "text?",
    /** JSON: usage of all turns so far; null before the first one ended. */
    usage: "text?",
    /** The model gets messages with a higher number only, after the summary; people still see the older ones. */
    context_seq: "integer",
    /** Number of the message that summarises what the model no longer gets. */
    summary_seq: "integer?",
  },
  ["id"],
  {
    by_key: { columns: ["owner", "session_key"], where: "session_key is not null" },
    by_update: { columns: ["owner", "updated_at", "id"], where: "transient = 0" },
    by_time: { columns: ["updated_at", "id"], where: "transient = 0" },
    leased: { columns: ["lease_owner", "lease_until"], where: "lease_owner is not null" },
    by_title: { columns: ["owner", "title"], where: "title is not null" },
    by_root: { columns: ["root_id"], where: "root_id is not null" },
  },
);

const runs = table(
  {
    id: "text",
    session_id: "text",
    owner: "text",
    /** Name of the API key that started it; null without one. */
    key: "text?",
    /** run, chat, response, subagent, background or compression. */
    kind: "text",
    /** The run that started this one as its sub-agent. */
    parent_id: "text?",
    status: "text",
    /** Effective `provider:model`. */
    model: "text",
    /** JSON: the messages of the prompt, and its options. */
    input: "text",
    output: "text?",
    /** JSON usage. */
    usage: "text?",
    /** JSON `{code, message}`. */
    error: "text?",
    /** JSON object that the client gave. */
    metadata: "text",
    last_seq: "integer",
    last_event: "text?",
    stop_requested: "integer",
    created_at: "integer",
    started_at: "integer?",
    updated_at: "integer",
    ended_at: "integer?",
    /** Set when the client sent the run in the responses format. */
    response_id: "text?",
    /** JSON: the endpoint that is notified of the run; see src/agent/run/run.ts. */
    webhook: "text?",
    /** JSON: where the answer goes; see src/agent/run/prompt.ts. */
    reply_to: "text?",
    /** JSON: what the client has to do, when the run ended with requires_action. */
    required_action: "text?",
    /** JSON: steering that came too late for the model. */
    pending_steer: "text?",
    /** Start of the prompt; the input may be long. */
    input_preview: "text?",
    /** The highest queued run is next; equal ones run in the order in which they came. */
    precedence: "integer",
  },
  ["id"],
  {
    by_session: { columns: ["session_id", "created_at"] },
    by_parent: { columns: ["parent_id", "id"], where: "parent_id is not null" },
    ended: { columns: ["ended_at", "id"], where: "ended_at is not null" },
    active: { columns: ["owner", "status", "id"], where: "ended_at is null" },
    by_end: { columns: ["owner", "status", "id"], where: "ended_at is not null" },
  },
  { hasLongRows: true },
);

/** A request in the responses format that is kept, beside its run. */
const responses = table(
  {
    id: "text",
    owner: "text",
    run_id: "text",
    session_id: "text",
    /** The client's name of the conversation that it is part of. */
    conversation: "text?",
    previous_id: "text?",
    /** The first response that continued this one in the same session; later ones start a branch. */
    next_id: "text?",
    /** JSON: the fields of the request that the response repeats. */
    request: "text",
    /** JSON: the input items. */
    input: "text",
    created_at: "integer",
    used_at: "integer",
  },
  ["id"],
  { by_use: { columns: ["owner", "used_at", "id"] }, by_run: { columns: ["run_id"] } },
  { hasLongRows: true },
);

const messages = table(
  {
    session_id: "text",
    seq: "integer",
    run_id: "text?",
    role: "text",
    /** JSON: a transcript message as in src/agent/engine.ts. */
    content: "text",
    created_at: "integer",
  },
  ["session_id", "seq"],
);

/** The journal. `seq` numbers a session's events, `run_seq` those of one run; both start at 1 and have no gaps. */
const events = table(
  {
    session_id: "text",
    seq: "integer",
    run_id: "text?",
    run_seq: "integer?",
    type: "text",
    /** JSON object. */
    data: "text",
    created_at: "integer",
  },
  ["session_id", "seq"],
  { by_run: { columns: ["run_id", "run_seq"], where: "run_id is not null", isUnique: true } },
);

const questions = table(
  {
    id: "text",
    session_id: "text",
    run_id: "text",
    owner: "text",
    /** approval, clarify, sudo or secret. */
    kind: "text",
    /** open, answered, expired or cancelled. */
    status: "text",
    /** JSON: the question's text and options. */
    question: "text",
    /** JSON: the answer. Always null for sudo and secret. */
    answer: "text?",
    answered_by: "text?",
    created_at: "integer",
    expires_at: "integer?",
    answered_at: "integer?",
    /** The tool call that waits for the answer, when the run itself makes it. */
    call_id: "text?",
    /** When a granted approval was used: the approved call has begun. */
    used_at: "integer?",
  },
  ["id"],
  {
    open: { columns: ["session_id", "created_at"], where: "status = 'open'" },
    by_run: { columns: ["run_id"] },
    by_session: { columns: ["session_id", "id"] },
    by_owner: { columns: ["owner", "id"] },
    by_status: { columns: ["owner", "status", "id"] },
  },
);

/** Permissions that a user granted permanently. */
const grants = table(
  {
    owner: "text",
    /** From the policy: the kind of call, and what about it requires approval. */
    signature: "text",
    tool: "text",
    /** For people: the call that was first approved under this signature. */
    title: "text",
    created_at: "integer",
  },
  ["owner", "signature"],
);

// Work that must survive a crash: claims, outgoing messages, received webhooks, scheduled jobs

/** Once-only work: a row is a claim on (scope, key). */
const ledger = table(
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
const outbox = table(
  {
    id: "text",
    /** Whose message it is: the owner of its run, job or route. */
    owner: "text",
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
    by_ref: { columns: ["ref", "id"], where: "ref is not null" },
    by_owner: { columns: ["owner", "id"] },
  },
  { hasLongRows: true },
);

/** A request that reached a route of the webhook receiver, and its result. */
const deliveries = table(
  {
    /** Ours; ids sort by their time. */
    id: "text",
    /** The route's. */
    owner: "text",
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
    /** 1: its sender was not verified. Its body is not kept, and a route keeps only a few of them. */
    unverified: "integer?",
    created_at: "integer",
    ended_at: "integer?",
  },
  ["id"],
  {
    // Ids sort by their time: a route's newest come first without a sort.
    by_route: { columns: ["route", "id"] },
    by_owner: { columns: ["owner", "id"] },
    by_origin: { columns: ["replay_of", "id"], where: "replay_of is not null" },
    open: { columns: ["id"], where: "ended_at is null" },
    unverified: { columns: ["route", "id"], where: "unverified is not null" },
  },
  { hasLongRows: true },
);

/** The large part of a delivery, in a row of its own that never changes: each update would rewrite all of it. */
const deliveryBodies = table(
  {
    /** The delivery's. */
    id: "text",
    /** The body as it came, as far as it is text. */
    payload: "text?",
    /** The rendered prompt or message. */
    rendered: "text?",
  },
  ["id"],
  {},
  { hasLongRows: true },
);

/** The newest event of a webhook's route and key, until it is quiet; see Coalescer in src/webhook/receive/coalesce.ts. */
const pendingEvents = table(
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
  { hasLongRows: true },
);

/**
 * The changes that one transaction made to resources of one owner, see src/store/feed/change.ts. A row for each change
 * would cost more than twice as much. Retention keeps the newest row: ids never repeat.
 */
const changes = table(
  {
    /** PostgreSQL: the id of the transaction; SQLite: 0. */
    tx: "integer",
    /** Of the last change; the others have the ids before it. */
    id: "integer",
    /** Number of changes. */
    count: "integer",
    owner: "text",
    created_at: "integer",
    /** JSON: an array `[type, id of the resource, data, actor]` for each change, without texts of people or models. */
    entries: "text",
  },
  ["tx", "id"],
  { by_owner: { columns: ["owner", "tx", "id"] } },
  { hasLongRows: true },
);

/** An API key that was created while the service runs. Its value is not stored. */
const apiKeys = table(
  {
    /** Ids sort by the time of creation. */
    id: "text",
    /** Unique among the keys that are not revoked. */
    name: "text",
    /** Whose data it reaches. */
    owner: "text",
    /** JSON array. */
    scopes: "text",
    /** SHA-256 of the value, in hex. A value has 256 random bits. */
    sha256: "text",
    /** Last characters of the value, for people. */
    hint: "text",
    /** The value before the last rotation, and until when it works. */
    previous_sha256: "text?",
    previous_until: "integer?",
    rate_limit_rpm: "integer?",
    max_concurrent_runs: "integer?",
    /** Billionths of a US dollar. */
    day_budget_nano: "integer?",
    /** Grows with each change of its rights: connections with an older revision end. */
    revision: "integer",
    /** Name of a key, or cli. */
    created_by: "text?",
    created_at: "integer",
    expires_at: "integer?",
    last_used_at: "integer?",
    revoked_at: "integer?",
  },
  ["id"],
  {
    by_value: { columns: ["sha256"], isUnique: true },
    by_previous: { columns: ["previous_sha256"], where: "previous_sha256 is not null" },
    by_name: { columns: ["name"], where: "revoked_at is null", isUnique: true },
  },
);

// All tables

export const tables = {
  /** About the store itself: its epoch. */
  metadata: table({ key: "text", value: "text" }, ["key"]),
  sessions,
  runs,
  messages,
  events,
  questions,
  ledger,
  outbox,
  grants,
  ...usageTables,
  responses,
  deliveries,
  delivery_bodies: deliveryBodies,
  pending_events: pendingEvents,
  cron_jobs: cronJobs,
  occurrences,
  cron_tickers: cronTickers,
  changes,
  api_keys: apiKeys,
  ...consoleTables,
};

/** The rows by table, as Kysely and the transaction's own methods take them. */
export type Tables = { [Name in keyof typeof tables]: RowOf<(typeof tables)[Name]> };

export type SessionRow = Tables["sessions"];
export type MessageRow = Tables["messages"];
export type RunRow = Tables["runs"];
export type EventRow = Tables["events"];
export type QuestionRow = Tables["questions"];
export type LedgerRow = Tables["ledger"];
export type OutboxRow = Tables["outbox"];
export type GrantRow = Tables["grants"];
export type UsageDayRow = Tables["usage_days"];
export type ResponseRow = Tables["responses"];
export type DeliveryRow = Tables["deliveries"];
export type DeliveryBodyRow = Tables["delivery_bodies"];
export type PendingEventRow = Tables["pending_events"];
export type CronJobRow = Tables["cron_jobs"];
export type OccurrenceRow = Tables["occurrences"];
export type CronTickerRow = Tables["cron_tickers"];
export type ApiKeyRow = Tables["api_keys"];
export type ConsoleSessionRow = Tables["console_sessions"];
