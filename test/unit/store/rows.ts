import { createId, createSessionId } from "../../../src/base/text.ts";
import type { NewEvent } from "../../../src/store/journal/journal.ts";
import type { Store } from "../../../src/store/store.ts";
import type {
  CronJobRow,
  DeliveryRow,
  OccurrenceRow,
  ResponseRow,
  RunRow,
  SessionRow,
} from "../../../src/store/schema/tables.ts";

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

/** A delivery that was accepted and has not ended. */
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

/** An occurrence of a job that ran at its time, and ended well. */
export function occurrenceRow(set: Partial<OccurrenceRow> = {}): OccurrenceRow {
  const { claimed_at: atMs = 1 } = set;
  return {
    id: createId("occ", atMs),
    owner: "default",
    job_id: "tea",
    job_name: "tea",
    scheduled_at: atMs,
    cause: "schedule",
    timing: "on_time",
    status: "ok",
    reason: null,
    covers_until: null,
    covers_count: 1,
    lease_owner: null,
    lease_until: null,
    claimed_at: atMs,
    started_at: atMs,
    ended_at: atMs,
    run_id: null,
    session_id: null,
    output_file: null,
    delivery_status: "none",
    delivery_error: null,
    ...set,
  };
}

/** A scheduled job that never ran. */
export function cronJobRow(set: Partial<CronJobRow> = {}): CronJobRow {
  const { id = "0123456789ab", created_at: atMs = 0 } = set;
  return {
    id,
    name: id,
    name_key: id,
    definition: "{}",
    revision: 1,
    lock_version: 1,
    owner: "default",
    state: "scheduled",
    due_at: atMs,
    next_run_at: atMs,
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
    created_at: atMs,
    updated_at: atMs,
    ...set,
  };
}

/** The stored response of a run. */
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
