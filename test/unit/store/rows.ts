import { createId, createSessionId } from "../../../src/base/text.ts";
import type { NewEvent } from "../../../src/store/journal/journal.ts";
import type { Store } from "../../../src/store/store.ts";
import type { DeliveryRow, ResponseRow, RunRow, SessionRow } from "../../../src/store/schema/tables.ts";

export function sessionRow(set: Partial<SessionRow> = {}): SessionRow {
  return {
    id: createSessionId(),
    owner: "tests",
    session_key: null,
    source: "embed",
    title: null,
    model: null,
    cwd: null,
    meta: "{}",
    transient: 0,
    last_seq: 0,
    last_message: 0,
    queued: 0,
    lease_owner: null,
    lease_until: 0,
    created_at: 1,
    updated_at: 1,
    parent_id: null,
    root_id: null,
    usage: null,
    context_seq: 0,
    summary_seq: null,
    ...set,
  };
}

export function runRow(sessionId: string, set: Partial<RunRow> = {}): RunRow {
  return {
    id: createId("run"),
    session_id: sessionId,
    owner: "tests",
    key: null,
    kind: "run",
    parent_id: null,
    status: "running",
    model: "test:one",
    input: "{}",
    output: null,
    usage: null,
    error: null,
    metadata: "{}",
    last_seq: 0,
    last_event: null,
    stop_requested: 0,
    created_at: 1,
    started_at: 1,
    updated_at: 1,
    ended_at: null,
    response_id: null,
    webhook: null,
    reply_to: null,
    required_action: null,
    pending_steer: null,
    input_preview: null,
    precedence: 0,
    ...set,
  };
}

/** The stored response of a run. */
/** One that was accepted and has not ended. */
export function deliveryRow(set: Partial<DeliveryRow> = {}): DeliveryRow {
  return {
    id: createId("dlv"),
    owner: "default",
    route: "hook",
    delivery_id: "d-1",
    event: "push",
    status: "accepted",
    reason: null,
    stages: "[]",
    headers: "{}",
    run_id: null,
    outbox_id: null,
    replay_of: null,
    unverified: null,
    created_at: 1,
    ended_at: null,
    ...set,
  };
}

export function responseRow({ sessionId, runId }: Seed, set: Partial<ResponseRow> = {}): ResponseRow {
  return {
    id: `resp_${runId.slice("run_".length)}`,
    owner: "tests",
    run_id: runId,
    session_id: sessionId,
    conversation: null,
    previous_id: null,
    next_id: null,
    request: "{}",
    input: "[]",
    created_at: 1,
    used_at: 1,
    ...set,
  };
}

export interface Seed {
  readonly sessionId: string;
  readonly runId: string;
}

/** A session with one running run. */
export async function seed(
  store: Store,
  set: { session?: Partial<SessionRow>; run?: Partial<RunRow> } = {},
): Promise<Seed> {
  const session = sessionRow(set.session);
  const run = runRow(session.id, set.run);
  await store.write(async (tx) => {
    await tx.insert("sessions", [session]);
    await tx.insert("runs", [run]);
  });
  return { sessionId: session.id, runId: run.id };
}

/** `count` events whose text tells them apart. */
export function deltas(runId: string | null, count: number, text = "d"): NewEvent[] {
  return Array.from({ length: count }, (_, i) => ({
    type: "message.delta",
    runId,
    data: { text: `${text}${i}` },
  }));
}
