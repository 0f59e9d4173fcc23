/** What every SDK does against a real server: one table, run in all languages. */

/** What the scripted model says; long enough for several pieces, and not plain ASCII. */
export const ANSWER = "Every piece of this arrives once, in order: äöü \u{1f40d}. ".repeat(6);

export interface SdkScenario {
  /** Name of the function in each runner. */
  readonly name: string;
  readonly title: string;
  /** What the function returns, as JSON. */
  readonly outcome: unknown;
}

const error = (kind: string, status: number, code: string) => ({ kind, status, code });

export const scenarios: readonly SdkScenario[] = [
  { name: "health", title: "a call without parameters is answered", outcome: { status: "ok" } },
  { name: "chat", title: "a chat is answered whole", outcome: { text: ANSWER } },
  { name: "chat_stream", title: "a chat is streamed in pieces", outcome: { text: ANSWER, pieces: true } },
  {
    name: "chat_stream_cut",
    title: "the answer of a cut chat stream is not lost",
    outcome: { text: ANSWER },
  },
  {
    name: "response_stream",
    title: "a response is streamed to its final event",
    outcome: { text: ANSWER, last: "response.completed" },
  },
  {
    name: "follow_response_cut",
    title: "a followed response resumes after each cut without loss or repetition",
    outcome: { text: ANSWER, last: "response.completed", in_order: true },
  },
  {
    name: "run_events",
    title: "the events of a run are typed and end with its final one",
    outcome: { first: "run.queued", last: "run.completed", in_order: true },
  },
  {
    name: "run_events_cut",
    title: "the events of a run resume after each cut without loss or repetition",
    outcome: { text: ANSWER, last: "run.completed", in_order: true },
  },
  {
    name: "run_events_from_middle",
    title: "the events of a run can be read from any event on",
    outcome: { first: 3, last: "run.completed" },
  },
  {
    name: "feed_cut",
    title: "the feed of changes resumes after each cut without loss or repetition",
    outcome: { events: 12, in_order: true },
  },
  { name: "run_approved", title: "a run waits for an approval", outcome: { output: "ok: it ran" } },
  { name: "run_denied", title: "a denied tool call does not run", outcome: { ran: false } },
  {
    name: "run_cancelled",
    title: "a run is stopped while it is streamed",
    outcome: { last: "run.cancelled", status: "cancelled" },
  },
  {
    name: "idempotent_replay",
    title: "a call with the same idempotency key starts one run",
    outcome: { same: true, replayed: "true" },
  },
  {
    name: "idempotency_conflict",
    title: "the same key with another request is a conflict",
    outcome: error("conflict", 409, "idempotency_key_conflict"),
  },
  { name: "list_pages", title: "a list is read page by page", outcome: { pages: 2, same: false } },
  {
    name: "not_found",
    title: "an unknown run is not found",
    outcome: error("not_found", 404, "run_not_found"),
  },
  {
    name: "unauthorized",
    title: "a wrong key is refused",
    outcome: error("authentication", 401, "invalid_api_key"),
  },
  {
    name: "forbidden",
    title: "a key without the scope is refused",
    outcome: error("permission", 403, "insufficient_scope"),
  },
  {
    name: "rate_limited",
    title: "too many calls are refused with the time to wait",
    outcome: { ...error("rate_limit", 429, "rate_limit_exceeded"), waits: true },
  },
  {
    name: "invalid_request",
    title: "an invalid request names the parameter",
    outcome: { ...error("api", 400, "invalid_request"), param: "limit" },
  },
  {
    name: "unreachable",
    title: "an unreachable server is a connection error",
    outcome: { kind: "connection" },
  },
  {
    name: "gateway_error",
    title: "gateway: an error has code, reason and whether to retry",
    outcome: { pong: true, code: 4001, reason: "session_not_found", retryable: false },
  },
  {
    name: "gateway_prompt",
    title: "gateway: a turn's events arrive once and in order",
    outcome: { text: ANSWER, deltas: ANSWER, in_order: true, status: "complete" },
  },
  {
    name: "gateway_cut",
    title: "gateway: a session resumes after cuts without loss or repetition",
    outcome: { text: ANSWER, deltas: ANSWER, in_order: true, status: "complete" },
  },
  {
    name: "gateway_approval",
    title: "gateway: a question function approves a tool call",
    outcome: { text: "ok: it ran", asked: "rm -rf it" },
  },
  {
    name: "gateway_clarify",
    title: "gateway: a question arrives as an event and is answered by a call",
    outcome: { text: "ok: this", question: "Which?" },
  },
  {
    name: "gateway_declined",
    title: "gateway: a question without its function is declined",
    outcome: { ran: false },
  },
  {
    name: "gateway_interrupt",
    title: "gateway: a turn is interrupted",
    outcome: { interrupted: "interrupted", status: "interrupted" },
  },
  {
    name: "gateway_wrong_key",
    title: "gateway: a wrong key is a transport error",
    outcome: { refused: true },
  },
  {
    name: "gateway_stdio",
    title: "gateway: a child process carries the same frames",
    outcome: { protocol: "agent-tui-gateway", whole: true, status: "complete" },
  },
];
