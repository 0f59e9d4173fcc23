/**
 * The tables, as both databases give them back: text ids, epoch-millisecond integers, JSON as text, 0/1 flags.
 * One set of types serves SQLite and PostgreSQL because nothing here is a database's own type.
 */
export interface Tables {
  /** Facts about the store itself: its epoch. */
  facts: { key: string; value: string };
  sessions: SessionRow;
  runs: RunRow;
  messages: MessageRow;
  events: EventRow;
  questions: QuestionRow;
  ledger: LedgerRow;
  outbox: OutboxRow;
  jobs: JobRow;
  grants: GrantRow;
  spending: SpendingRow;
  responses: ResponseRow;
  deliveries: DeliveryRow;
  delivery_bodies: DeliveryBodyRow;
  pending_events: PendingEventRow;
  cron_jobs: CronJobRow;
  occurrences: OccurrenceRow;
  cron_tickers: CronTickerRow;
}

export interface SessionRow {
  id: string;
  /** Name of the API key that made the session; others do not see it. */
  owner: string;
  /** The client's own stable name for the conversation; the newest session of an owner with this key answers to it. */
  session_key: string | null;
  /** Which surface made it: http, rpc, acp, webhook, cron, embed. */
  source: string;
  title: string | null;
  /** `provider:model` chosen for the session; null follows the configuration. */
  model: string | null;
  cwd: string | null;
  /** JSON object: what was chosen for the session; see SessionSettings in src/agent/session/session.ts. */
  meta: string;
  /** 1: made for one stateless request, swept with its run. */
  transient: number;
  /** Last journal number given out; events are numbered 1.. without gaps. */
  last_seq: number;
  /** Last message number given out. */
  last_message: number;
  /** Runs of the session that wait for their turn. */
  queued: number;
  /** The process that may run a turn; null when nobody does. */
  lease_owner: string | null;
  lease_until: number;
  created_at: number;
  updated_at: number;
  /** The session this one was branched from, or works for. */
  parent_id: string | null;
  /** First session of the line of branches; null: this one. */
  root_id: string | null;
  /** JSON: usage of all turns so far; null before the first ended. */
  usage: string | null;
  /** The model gets messages with a higher number only, behind the summary; what is older stays for people. */
  context_seq: number;
  /** Number of the message that sums up what the model no longer gets. */
  summary_seq: number | null;
}

export interface RunRow {
  id: string;
  session_id: string;
  owner: string;
  /** run, chat, response, subagent, background or compression. */
  kind: string;
  /** The run that started this one as its sub-agent. */
  parent_id: string | null;
  status: string;
  /** Effective `provider:model`. */
  model: string;
  /** JSON: the messages this run was asked with, and its options. */
  input: string;
  output: string | null;
  /** JSON usage. */
  usage: string | null;
  /** JSON `{code, message}`. */
  error: string | null;
  /** JSON object given by the client. */
  metadata: string;
  last_seq: number;
  last_event: string | null;
  stop_requested: number;
  created_at: number;
  started_at: number | null;
  updated_at: number;
  ended_at: number | null;
  /** Of a run that was asked for in the responses format. */
  response_id: string | null;
  /** JSON: who is told of the run, see RunWebhook in src/agent/notify/run-webhook.ts. */
  webhook: string | null;
  /** JSON: where its answer goes, see src/agent/notify/run-trigger.ts. */
  delivery: string | null;
  /** JSON: what the client has to do, when the run ended with that. */
  required_action: string | null;
  /** JSON: steering that came too late for the model. */
  pending_steer: string | null;
  /** Start of the prompt; its input may be long. */
  input_preview: string | null;
  /** Of a queued run: the highest runs next; those of the same one in the order in which they came. */
  precedence: number;
}

/** The newest event of a webhook's route and key, until it is quiet; see Coalescer in src/webhook/receive/coalesce.ts. */
export interface PendingEventRow {
  /** Digest of the route and the key. */
  id: string;
  /** Id of its record among the deliveries. */
  delivery: string;
  /** JSON: the prompt that the agent gets. */
  prompt: string;
  /** How many older events it took the place of. */
  superseded: number;
  /** When the first of them came. */
  first_at: number;
  due_at: number;
}

/** The large part of a delivery, in a row that nothing changes: each change would write all of it once more. */
export interface DeliveryBodyRow {
  /** The delivery's. */
  id: string;
  /** The body as it came, as far as it is text. */
  payload: string | null;
  /** What was rendered: the prompt, or the message. */
  rendered: string | null;
}

/** A request that the receiver of webhooks believed, and what became of it. */
export interface DeliveryRow {
  /** Ours; ids sort by their time. */
  id: string;
  route: string;
  /** What the sender calls it. */
  delivery_id: string;
  event: string;
  /** accepted, running, completed, failed, delivered, ignored, duplicate, refused or interrupted. */
  status: string;
  /** Why, where the status does not say it all. */
  reason: string | null;
  /** JSON: the verdict of each stage that it came through, in their order. */
  stages: string;
  /** JSON object; without what is secret. */
  headers: string;
  run_id: string | null;
  /** The message that is owed for it. */
  outbox_id: string | null;
  /** The delivery that this one repeats on request. */
  replay_of: string | null;
  created_at: number;
  ended_at: number | null;
}

/** A request in the responses format that is kept, beside its run. */
export interface ResponseRow {
  id: string;
  owner: string;
  run_id: string;
  session_id: string;
  /** The client's name of the conversation it is part of. */
  conversation: string | null;
  previous_id: string | null;
  /** The first that went on from this one, in the same session; those that come later begin a branch. */
  next_id: string | null;
  /** JSON: what the response repeats of its request. */
  request: string;
  /** JSON: the items that it was asked with. */
  input: string;
  created_at: number;
  used_at: number;
}

export interface MessageRow {
  session_id: string;
  seq: number;
  run_id: string | null;
  role: string;
  /** JSON: a transcript message as in src/agent/message.ts. */
  content: string;
  created_at: number;
}

/** The journal. `seq` numbers a session's events, `run_seq` those of one run; both start at 1 and have no gaps. */
export interface EventRow {
  session_id: string;
  seq: number;
  run_id: string | null;
  run_seq: number | null;
  type: string;
  /** JSON object. */
  data: string;
  created_at: number;
}

export interface QuestionRow {
  id: string;
  session_id: string;
  run_id: string;
  owner: string;
  /** approval, clarify, sudo or secret. */
  kind: string;
  /** open, answered, expired or cancelled. */
  status: string;
  /** JSON: what is asked. */
  question: string;
  /** JSON: what was answered. Always null for sudo and secret. */
  answer: string | null;
  answered_by: string | null;
  created_at: number;
  expires_at: number | null;
  answered_at: number | null;
  /** The tool call that waits for the answer, when it is one of the run itself. */
  call_id: string | null;
  /** When leave that was given was made use of: what it was for has begun then. */
  taken_at: number | null;
}

/** Once-only work: a row is a claim on (scope, key). */
export interface LedgerRow {
  scope: string;
  key: string;
  /** Hash of what the key was first used with; another fingerprint under the same key is a conflict. */
  fingerprint: string;
  /** claimed or done. */
  status: string;
  owner: string;
  /** JSON: what the work came to. */
  result: string | null;
  created_at: number;
  /** While claimed: when the claim may be taken over. When done: when the row may be forgotten. */
  expires_at: number;
}

/** Messages owed to targets. `available_at` doubles as the end of the lease. */
export interface OutboxRow {
  id: string;
  target: string;
  /** JSON. */
  payload: string;
  /** What owes it: a run or a delivery id. */
  ref: string | null;
  /** due, leased (being sent), delivered, dead (given up), unknown (it may have arrived) or dropped (by a person). */
  status: string;
  attempts: number;
  /** 0: as many as the target's waits allow. */
  max_attempts: number;
  available_at: number;
  lease_owner: string | null;
  last_error: string | null;
  created_at: number;
  done_at: number | null;
  /** Messages of one lane go out one after the other; null: it waits for nobody. */
  lane: string | null;
  /** Who looks for work looks into each queue: the platform, or the whole address where there is no lane. */
  queue: string;
  /** 1: an older message of its lane is owed, and nobody looks for this one yet. */
  held: number;
  /** Parts of a long message that have arrived. */
  parts_sent: number;
  /** When a person last had it tried again. */
  retried_at: number | null;
  /** When the latest attempt began, or the latest part of it. */
  tried_at: number | null;
  /** When the first attempt began of which nobody knows whether the platform took it. */
  uncertain_at: number | null;
  /** When the request of the latest attempt began; null: it has not, or the platform recognises repeats. */
  started_at: number | null;
  /** JSON list of the latest attempts that ended; see src/store/outbox/attempts.ts. */
  attempt_log: string | null;
}

/** Leased work. `available_at` doubles as the end of the lease, so an expired lease is simply due again. */
export interface JobRow {
  id: string;
  kind: string;
  ref: string;
  /** JSON. */
  payload: string;
  /** queued, leased, done or dead. */
  status: string;
  attempts: number;
  max_attempts: number;
  available_at: number;
  lease_owner: string | null;
  last_error: string | null;
  created_at: number;
  done_at: number | null;
}

/** What somebody allowed for good. */
export interface GrantRow {
  owner: string;
  /** Of the policy: the kind of call, and what about it was minded. */
  signature: string;
  tool: string;
  /** For people: what was allowed first under this signature. */
  title: string;
  created_at: number;
}

/** Tokens that the runs of an owner used on a day. */
export interface SpendingRow {
  owner: string;
  /** `YYYY-MM-DD`, UTC. */
  day: string;
  tokens: number;
}

/** A job of the clock. Times in milliseconds since the epoch. */
export interface CronJobRow {
  /** 12 hex digits. */
  id: string;
  name: string;
  /** The name in lower case: what people call the job by. */
  name_key: string;
  /** JSON: what people said the job is; see JobDefinition in src/cron/job/job.ts. */
  definition: string;
  /** Grows with every change but those of an end: who decides about a row changes it at this revision only. */
  revision: number;
  /** scheduled, paused, completed, missed or error. */
  state: string;
  /** When the job is to be looked at: the first of what follows, with the jitter; null while nothing is. */
  due_at: number | null;
  /** The next instant of the schedule. */
  next_run_at: number | null;
  /** When a person asked for a run that has not begun. */
  manual_at: number | null;
  /** When a run that never reached a model is tried again. */
  retry_at: number | null;
  /** How often in a row that was done. */
  retries: number;
  /** Instants of the schedule that ran. */
  repeat_done: number;
  /** Runs that failed since the last that did not. */
  failure_streak: number;
  last_run_at: number | null;
  /** ok, error, delivery_failed, blocked_config, unknown or missed. */
  last_status: string | null;
  last_error: string | null;
  last_delivery_error: string | null;
  /** The occurrence that the last columns tell of: its messages may end long after it. */
  last_occurrence: string | null;
  paused_at: number | null;
  paused_reason: string | null;
  created_at: number;
  updated_at: number;
}

/** An instant at which a job was due, and what became of it. There is one row for an instant, whoever sees it come. */
export interface OccurrenceRow {
  /** Ids sort by the time of the claim. */
  id: string;
  job_id: string;
  job_name: string;
  scheduled_at: number;
  /** schedule, manual or retry. */
  cause: string;
  /** on_time, late or catch_up. */
  timing: string;
  /** claimed, running, ok, failed, missed, skipped or unknown. */
  status: string;
  /** Why, where the status does not say it all. */
  reason: string | null;
  /** Of a missed one: the last instant that it stands for, and how many they are. */
  covers_until: number | null;
  covers_count: number;
  /** Who has it in hand while it has no run; then the run's session is leased. */
  lease_owner: string | null;
  lease_until: number | null;
  claimed_at: number;
  started_at: number | null;
  ended_at: number | null;
  run_id: string | null;
  session_id: string | null;
  /** Name of the file in the folder of the job's outputs. */
  output_file: string | null;
  /** pending, delivered, failed, unknown, silent or none; null before the end. */
  delivery_status: string | null;
  delivery_error: string | null;
}

/** A process that looks for due jobs. */
export interface CronTickerRow {
  owner: string;
  started_at: number;
  ticked_at: number;
  succeeded_at: number | null;
  last_error: string | null;
  /** When it last found jobs that a clock ahead of the time had put off, and how many. */
  corrected_at: number | null;
  corrected_jobs: number | null;
}
