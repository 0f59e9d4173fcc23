import type { Tables } from "./tables.ts";

type Columns = { readonly [K in keyof Tables]: { readonly [C in keyof Tables[K]]: true } };

/** Every column once, held to the row types by the compiler and to the databases by the suite. */
const columns: Columns = {
  facts: { key: true, value: true },
  sessions: {
    id: true,
    owner: true,
    session_key: true,
    source: true,
    title: true,
    model: true,
    cwd: true,
    meta: true,
    transient: true,
    last_seq: true,
    last_message: true,
    queued: true,
    lease_owner: true,
    lease_until: true,
    created_at: true,
    updated_at: true,
    parent_id: true,
    root_id: true,
    usage: true,
    context_seq: true,
    summary_seq: true,
  },
  runs: {
    id: true,
    session_id: true,
    owner: true,
    kind: true,
    parent_id: true,
    status: true,
    model: true,
    input: true,
    output: true,
    usage: true,
    error: true,
    metadata: true,
    last_seq: true,
    last_event: true,
    stop_requested: true,
    created_at: true,
    started_at: true,
    updated_at: true,
    ended_at: true,
    response_id: true,
    webhook: true,
    required_action: true,
    pending_steer: true,
    input_preview: true,
  },
  responses: {
    id: true,
    owner: true,
    run_id: true,
    session_id: true,
    conversation: true,
    previous_id: true,
    next_id: true,
    request: true,
    input: true,
    created_at: true,
    used_at: true,
  },
  messages: { session_id: true, seq: true, run_id: true, role: true, content: true, created_at: true },
  events: {
    session_id: true,
    seq: true,
    run_id: true,
    run_seq: true,
    type: true,
    data: true,
    created_at: true,
  },
  asks: {
    id: true,
    session_id: true,
    run_id: true,
    owner: true,
    kind: true,
    status: true,
    question: true,
    answer: true,
    answered_by: true,
    created_at: true,
    expires_at: true,
    answered_at: true,
    call_id: true,
    taken_at: true,
  },
  ledger: {
    scope: true,
    key: true,
    fingerprint: true,
    status: true,
    owner: true,
    result: true,
    created_at: true,
    expires_at: true,
  },
  outbox: {
    id: true,
    target: true,
    payload: true,
    ref: true,
    status: true,
    attempts: true,
    max_attempts: true,
    available_at: true,
    lease_owner: true,
    last_error: true,
    created_at: true,
    done_at: true,
  },
  jobs: {
    id: true,
    kind: true,
    ref: true,
    payload: true,
    status: true,
    attempts: true,
    max_attempts: true,
    available_at: true,
    lease_owner: true,
    last_error: true,
    created_at: true,
    done_at: true,
  },
  grants: { owner: true, signature: true, tool: true, title: true, created_at: true },
  spending: { owner: true, day: true, tokens: true },
};

const lists = new Map(
  Object.entries(columns).map(([table, names]) => [table, Object.freeze(Object.keys(names))] as const),
);

/** The table's columns in the order in which statements name them. */
export function columnsOf(table: keyof Tables): readonly string[] {
  const list = lists.get(table);
  if (!list) throw new TypeError(`There is no table ${JSON.stringify(table)}.`);
  return list;
}

/** True for a name that may stand in a statement: names of columns are the one thing that cannot be a parameter. */
export function hasColumn(table: keyof Tables, column: string): boolean {
  return columnsOf(table).includes(column);
}
