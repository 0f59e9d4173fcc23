/** Tables of the agent: sessions, their journal, and what their runs ask and use. */
import { table } from "./define.ts";

export const sessions = table(
  {
    id: "text",
    /** Name of the API key that created the session; other keys do not see it. */
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
    by_update: { columns: ["updated_at"], where: "transient = 0" },
    leased: { columns: ["lease_owner", "lease_until"], where: "lease_owner is not null" },
    by_title: { columns: ["owner", "title"], where: "title is not null" },
    by_root: { columns: ["root_id"], where: "root_id is not null" },
  },
);

export const runs = table(
  {
    id: "text",
    session_id: "text",
    owner: "text",
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
    /** JSON: the endpoint that is notified of the run; see RunWebhook in src/agent/notify/run-webhook.ts. */
    webhook: "text?",
    /** JSON: where the answer goes; see src/agent/notify/run-reply.ts. */
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
    by_parent: { columns: ["parent_id"], where: "parent_id is not null" },
    ended: { columns: ["ended_at"], where: "ended_at is not null" },
    active: { columns: ["owner", "status"], where: "ended_at is null" },
    by_end: { columns: ["owner", "status", "id"], where: "ended_at is not null" },
  },
);

/** A request in the responses format that is kept, beside its run. */
export const responses = table(
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
  { by_use: { columns: ["owner", "used_at"] }, by_run: { columns: ["run_id"] } },
);

export const messages = table(
  {
    session_id: "text",
    seq: "integer",
    run_id: "text?",
    role: "text",
    /** JSON: a transcript message as in src/agent/message.ts. */
    content: "text",
    created_at: "integer",
  },
  ["session_id", "seq"],
);

/** The journal. `seq` numbers a session's events, `run_seq` those of one run; both start at 1 and have no gaps. */
export const events = table(
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

export const questions = table(
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
  },
);

/** Permissions that a user granted permanently. */
export const grants = table(
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

/** Tokens that an owner's runs used on a day. */
export const spending = table(
  {
    owner: "text",
    /** `YYYY-MM-DD`, UTC. */
    day: "text",
    tokens: "integer",
  },
  ["owner", "day"],
);
