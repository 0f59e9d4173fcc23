/** Stops, steers and ends runs. Any process requests a stop or steers through the store; the process of the run reacts. */
import { createId, headOf } from "../../base/text.ts";
import type { Clock } from "../../base/time.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { RunUsage, RunToolCall } from "../../../generated/http/client/types.gen.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import { enqueueEndWebhook } from "./webhook.ts";
import { runEvent, sessionEvent } from "./event.ts";
import {
  type Outcome,
  endAllRuns,
  endRun,
  followRun,
  moveRun,
  parseInput,
  runningTurn,
  type RunInput,
  type RunStop,
} from "./run.ts";
import { pendingSteers, steerEvents } from "../recovery/rebuild-step.ts";
import type { AgentDeps } from "../deps.ts";
import type { TurnEnd } from "../engine.ts";
import { addRunUsage, toRunUsage, countUsage } from "../usage/usage.ts";

/** Shorter runs are not followed: following costs each of them, and no person can stop them in time. */
const FOLLOW_AFTER_MS = 250;

/** From this age a run accepts steering from other processes: it is followed by then, or checks for it at its end. */
const REMOTE_STEER_AFTER_MS = 2 * FOLLOW_AFTER_MS;

/** Text for the model, added to a running turn. */
export interface Steer {
  readonly id: string;
  readonly text: string;
}

/** Why a run is to stop, and who requested it, such as the name of a key. Absent: the server itself. */
export interface StopRequest {
  readonly reason: string;
  readonly by?: string | undefined;
}

/** Requests that a run stops, inside `tx`, in whichever process it runs. False when it is not running. */
export async function requestStop(
  tx: Tx,
  store: Store,
  run: { readonly id: string; readonly sessionId: string },
  { reason, by: actor }: StopRequest,
): Promise<boolean> {
  const set = { stop_requested: 1 };
  const moved =
    (await moveRun(tx, run.id, { from: "running", to: "stopping", actor }, set)) ||
    (await moveRun(tx, run.id, { from: "waiting_for_approval", to: "stopping", actor }, set));
  if (!moved) return false;
  await store.journal.append(tx, run.sessionId, [runEvent(run.id, "run.stopping", { reason })]);
  return true;
}

/** As {@link requestStop}, by the run's id. */
export async function requestStopOf(
  tx: Tx,
  store: Store,
  runId: string,
  request: StopRequest,
): Promise<boolean> {
  const run = await tx.find("runs", { id: runId });
  return run !== undefined && requestStop(tx, store, { id: runId, sessionId: run.session_id }, request);
}

/** As {@link requestStop}, for the running run of a session. Resolves to its id; undefined when none runs. */
export async function requestStopIn(
  tx: Tx,
  store: Store,
  sessionId: string,
  request: StopRequest,
): Promise<string | undefined> {
  const running = await runningTurn({ read: tx.db }, sessionId);
  if (!running) return undefined;
  await requestStop(tx, store, { id: running.runId, sessionId }, request);
  return running.runId;
}

/**
 * Steers a run through the store, in whichever process it runs. False when it is not running: the text was not accepted.
 * `alsoSteer` is called in the same transaction.
 */
export async function steerByStore(
  { store, clock }: { readonly store: Store; readonly clock: Clock },
  { runId, text, alsoSteer }: StoreSteer,
): Promise<boolean> {
  for (;;) {
    const { taken, retryMs } = await store.write(async (tx) => {
      const asked = await requestSteer(tx, store, runId, text);
      if (asked.taken) await alsoSteer?.(tx, runId);
      return asked;
    });
    if (retryMs === undefined) return taken;
    await clock.sleep(retryMs);
  }
}

interface StoreSteer {
  readonly runId: string;
  readonly text: string;
  readonly alsoSteer?: ((tx: Tx, runId: string) => Promise<void>) | undefined;
}

/** As {@link steerByStore}, inside `tx`. A run that has just begun accepts nothing yet: `retryMs` says when it does. */
export async function requestSteer(
  tx: Tx,
  store: Store,
  runId: string,
  text: string,
): Promise<{ readonly taken: boolean; readonly retryMs?: number }> {
  const run = await tx.find("runs", { id: runId });
  if (run?.status !== "running" || run.kind === "compression") return { taken: false };
  const youngMs = REMOTE_STEER_AFTER_MS - (tx.nowMs - (run.started_at ?? run.created_at));
  if (youngMs > 0) return { taken: false, retryMs: Math.min(youngMs, REMOTE_STEER_AFTER_MS) };
  // Transactions overlap on some stores: this fails when the run has ended since it was read, else its end waits for us.
  const isOurs = { id: runId, status: "running" };
  if ((await tx.update("runs", isOurs, { updated_at: tx.nowMs })) === 0) return { taken: false };
  const event = runEvent(runId, "run.steer_accepted", { steer_id: createId("str", tx.nowMs), text });
  await store.journal.append(tx, run.session_id, [event]);
  return { taken: true };
}

/**
 * Returns steering that another process accepted and this one has not seen, inside the transaction that ends the run.
 * `seen` holds the ids this process has seen; it has seen those of all events up to `heardUpTo`.
 */
export async function unheardSteers(
  tx: Tx,
  run: { readonly id: string; readonly startedAtMs: number },
  { seen, heardUpTo }: { readonly seen: ReadonlySet<string>; readonly heardUpTo: number },
): Promise<readonly string[]> {
  if (tx.nowMs - run.startedAtMs < FOLLOW_AFTER_MS) return [];
  // A process that steers locks the row until it commits; from here on no steering is accepted.
  await tx.update("runs", { id: run.id, ended_at: null }, { updated_at: tx.nowMs });
  const events = await steerEvents(tx, run.id, { after: heardUpTo });
  return pendingSteers(events.filter(({ data }) => !seen.has(String(data["steer_id"]))));
}

export interface ControlListener {
  readonly onStop: (reason: string) => void;
  readonly onSteer: (steer: Steer) => void;
}

/**
 * Listens for requests to a run, once it is {@link FOLLOW_AFTER_MS} old. A class, because an object literal with a getter
 * would stay in memory, with the run, until the next full collection.
 */
export class ControlRequests {
  readonly #cancelTimer: () => void;
  #listening: ReturnType<Store["journal"]["listen"]> | undefined;

  constructor(
    { store, clock }: { readonly store: Store; readonly clock: Clock },
    runId: string,
    listener: ControlListener & { readonly onFailure: (error: unknown) => void },
  ) {
    const onEvent = ({ type, data }: JournalEvent) => {
      if (type === "run.stopping") return listener.onStop(String(data["reason"] ?? "a stop was requested"));
      listener.onSteer({ id: String(data["steer_id"]), text: String(data["text"]) });
    };
    this.#cancelTimer = clock.after(FOLLOW_AFTER_MS, () => {
      const { onFailure } = listener;
      this.#listening = store.journal.listen(runId, { types: REQUESTS, onEvent, onFailure });
    });
  }

  /** Number of the last event of the run that was looked at; 0 before the first. */
  get heardUpTo(): number {
    return this.#listening?.upTo ?? 0;
  }

  stop(): void {
    this.#cancelTimer();
    this.#listening?.end();
  }
}

const REQUESTS = ["run.stopping", "run.steer_accepted"] as const;

/** A timer this late by the wall clock means that the clock was set or the machine slept. */
const JUMP_MS = 30_000;

/**
 * Calls `onInactive` when no heartbeat came for `limitMs`. Heartbeats are cheap: one may come with every delta. Time in
 * which the clock jumps or the machine sleeps does not count.
 */
export class IdleTimeout {
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #onInactive: () => void;
  #lastMs: number;
  #holders = 0;
  #cancel = (): void => {};

  /** Starts the timer. `limitMs` 0: `onInactive` is never called. */
  constructor(options: { readonly clock: Clock; readonly limitMs: number; readonly onInactive: () => void }) {
    this.#clock = options.clock;
    this.#limitMs = options.limitMs;
    this.#onInactive = options.onInactive;
    this.#lastMs = this.#clock.now();
    if (this.#limitMs > 0) this.#wait(this.#limitMs);
  }

  /** Records a heartbeat. */
  keepAlive(): void {
    if (this.#limitMs > 0) this.#lastMs = this.#clock.now();
  }

  /** Suspends the timeout while `work`, which has timeouts of its own, is under way. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#holders += 1;
    try {
      return await work();
    } finally {
      this.#holders -= 1;
      this.keepAlive();
    }
  }

  stop(): void {
    this.#cancel();
  }

  #wait(ms: number): void {
    const dueMs = this.#clock.now() + ms;
    this.#cancel = this.#clock.after(ms, () => this.#check(dueMs));
  }

  #check(dueMs: number): void {
    const nowMs = this.#clock.now();
    if (this.#holders > 0 || Math.abs(nowMs - dueMs) > JUMP_MS || nowMs < this.#lastMs) this.#lastMs = nowMs;
    const leftMs = this.#lastMs + this.#limitMs - nowMs;
    if (leftMs > 0) this.#wait(leftMs);
    else this.#onInactive();
  }
}

interface Stopper {
  stop(runId: string, reason: string, options?: Pick<StopRequest, "by">): Promise<boolean>;
}

/**
 * Stops all running and queued runs of a session, in whichever process. Resolves to true when all have ended, to false
 * when some have not after `timeoutMs`.
 */
export async function endRuns(
  { deps, runs }: { readonly deps: Pick<AgentDeps, "store" | "clock">; readonly runs: Stopper },
  sessionId: string,
  { reason, by, timeoutMs }: StopRequest & { readonly timeoutMs: number },
): Promise<boolean> {
  const { store, clock } = deps;
  const open = await store.read
    .selectFrom("runs")
    .select(["id", "last_seq"])
    .where("session_id", "=", sessionId)
    .where("ended_at", "is", null)
    // Queued runs go first, so that none of them starts when the running one ends.
    .orderBy("created_at", "desc")
    .execute();
  const late = new AbortController();
  const cancel = clock.after(timeoutMs, () => late.abort());
  try {
    for (const { id } of open) await runs.stop(id, reason, { by });
    for (const { id, last_seq: after } of open) {
      await ended(followRun(store, id, { after, signal: late.signal }));
    }
  } finally {
    cancel();
  }
  return !late.signal.aborted;
}

async function ended(events: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of events);
}

/** Longest text of a background prompt in its event; the run has all of it. */
const MAX_TEXT_CHARACTERS = 65_536;

interface ConcludedRun {
  readonly run: RunRow;
  /** The surface that created its session. Absent: the run never started, and counts as no use. */
  readonly source?: string;
  /** The session was made for this one request. */
  readonly isStateless?: boolean;
  readonly deps: Pick<AgentDeps, "store" | "runEnded" | "trigger">;
}

/**
 * Ends a run and, in the same transaction, adds its usage to the session, enqueues its webhook, and notifies its trigger
 * and the session of a background prompt. False when the run had ended already. The caller appends the final event.
 */
export async function concludeRun(tx: Tx, concluded: ConcludedRun, outcome: Outcome): Promise<boolean> {
  if (!(await endRun(tx, concluded.run.id, outcome.status, outcome.set))) return false;
  await followEnd(tx, concluded, outcome);
  return true;
}

/** As {@link concludeRun}, for many runs. */
export async function concludeAllRuns(
  tx: Tx,
  deps: ConcludedRun["deps"],
  ends: readonly { readonly run: RunRow; readonly source: string; readonly outcome: Outcome }[],
): Promise<void> {
  const endings = ends.map(({ run, outcome: { status, set } }) => ({ runId: run.id, status, set }));
  const ended = await endAllRuns(tx, endings);
  for (const { run, source, outcome } of ends) {
    if (ended.has(run.id)) await followEnd(tx, { run, source, deps }, outcome);
  }
}

/** Writes what follows the end of a run, in the same transaction; see {@link concludeRun}. */
export async function followEnd(
  tx: Tx,
  { run, source, isStateless = false, deps }: ConcludedRun,
  outcome: Outcome,
): Promise<void> {
  const { store, runEnded: ended, trigger } = deps;
  const { status, usage } = outcome;
  if (source !== undefined) countUsage(tx, { run, source, status, usage });
  if (ended) tx.afterCommit(() => ended({ kind: run.kind, status, model: run.model, usage }));
  if (run.webhook !== null) await enqueueEndWebhook(tx, store, run, outcome);
  if (run.reply_to !== null && trigger?.owns(run.reply_to)) await trigger.ended(tx, run, outcome);
  const isPlain = run.kind !== "subagent" && run.kind !== "background";
  if (isPlain && isStateless) return;
  // Only these kinds work for another session; the input of the others may be long and is not parsed again.
  const { family, notifySessionId } = isPlain ? {} : parseLinks(run);
  await addToSession(tx, family?.root.sessionId ?? run.session_id, outcome.set.usage ?? null);
  if (notifySessionId !== undefined) await notify(tx, store, notifySessionId, { run, outcome });
}

function parseLinks(run: RunRow): Pick<RunInput, "family" | "notifySessionId"> {
  return parseInput(run);
}

/** Sessions made for one request keep no sum: their only run has it. */
async function addToSession(tx: Tx, sessionId: string, usage: string | null): Promise<void> {
  if (usage === null) return;
  const session = await tx.find("sessions", { id: sessionId });
  if (!session || session.transient === 1) return;
  const known = session.usage === null ? undefined : (JSON.parse(session.usage) as RunUsage);
  const sum = known ? addRunUsage(known, JSON.parse(usage) as RunUsage) : JSON.parse(usage);
  await tx.update("sessions", { id: sessionId }, { usage: JSON.stringify(sum) });
}

async function notify(
  tx: Tx,
  store: Store,
  sessionId: string,
  { run, outcome }: { readonly run: RunRow; readonly outcome: Outcome },
): Promise<void> {
  // The session may have been deleted meanwhile.
  if (!(await tx.find("sessions", { id: sessionId }))) return;
  const { error, reason } = outcome.event.data as { error?: { message: string }; reason?: string };
  const text = outcome.set.output ?? error?.message ?? reason ?? "";
  const event = sessionEvent("background.complete", {
    task_id: run.id,
    status: outcome.status === "completed" ? "complete" : "error",
    text: headOf(text, MAX_TEXT_CHARACTERS),
  });
  await store.journal.append(tx, sessionId, [event]);
}

/** How a run is closed when its turn is over. */
export interface RunClose<T> {
  /** Writes what follows the end, in the same transaction. */
  readonly follow: (tx: Tx, outcome: Outcome) => Promise<void>;
  /** Starts the next run of the session, in the same transaction. */
  readonly next: (tx: Tx) => Promise<T>;
  /** Instead of `next` when the run has ended already. */
  readonly ended: (tx: Tx) => Promise<T | undefined>;
  /** Calls `write`, the transaction of the end, until it succeeds or is given up. */
  readonly attempts: (write: () => Promise<T | undefined>) => Promise<T | undefined>;
}

/** Returns the outcome of a run from the engine's end and the reason of a stop, if any. */
export function outcomeOf(
  run: Pick<RunRow, "id" | "model">,
  end: TurnEnd,
  context: {
    readonly stop: RunStop | undefined;
    readonly pendingSteer: readonly string[];
    /** Calls that the client is to make. */
    readonly requested?: readonly RunToolCall[];
    /** The turn is removed from the conversation. */
    readonly isUndone?: boolean;
  },
): Outcome {
  return { ...endOf(run, end, context), usage: end.usage };
}

function endOf(
  { id: runId, model }: Pick<RunRow, "id" | "model">,
  end: TurnEnd,
  context: Parameters<typeof outcomeOf>[2],
): Outcome {
  const usage = toRunUsage(end.usage, model);
  const stored = {
    usage: JSON.stringify(usage),
    ...(context.pendingSteer.length > 0 ? { pending_steer: JSON.stringify(context.pendingSteer) } : {}),
  };
  const pending = context.pendingSteer.length > 0 ? { pending_steer: [...context.pendingSteer] } : {};
  if (end.stop === "aborted") return stopped(runId, context.stop, { usage, stored, pending });
  if (end.stop === "error") {
    const error = {
      code: end.error?.code ?? "internal_error",
      message: end.error?.message ?? "The agent failed.",
    };
    const set = { ...stored, error: JSON.stringify(error) };
    const { retryAfterSeconds, failure } = end.error ?? {};
    const retry = retryAfterSeconds === undefined ? {} : { retry_after_seconds: retryAfterSeconds };
    const data = { error, usage, ...retry, ...(failure ? { failure } : {}), ...pending };
    return { status: "failed", set, event: runEvent(runId, "run.failed", data) };
  }
  if (end.stop === "tool_calls") {
    const action = { type: "submit_tool_outputs" as const, tool_calls: [...(context.requested ?? [])] };
    const data = { output: null, usage, stop: end.stop, required_action: action, ...pending };
    return {
      status: "completed",
      set: { ...stored, required_action: JSON.stringify(action) },
      event: runEvent(runId, "run.completed", data),
    };
  }
  return {
    status: "completed",
    set: { ...stored, output: end.text },
    event: runEvent(runId, "run.completed", {
      output: end.text,
      usage,
      stop: end.stop,
      ...(context.isUndone === true ? { undone: true } : {}),
      ...pending,
    }),
  };
}

/** Returns the outcome of a run that was stopping when its process ended. */
export function cancelledOutcome(runId: string, pendingSteer: readonly string[]): Outcome {
  const pending = pendingSteer.length > 0 ? { pending_steer: [...pendingSteer] } : {};
  const data = { reason: "The run was stopped, and its process ended meanwhile.", ...pending };
  return {
    status: "cancelled",
    set: pendingSteer.length > 0 ? { pending_steer: JSON.stringify(pendingSteer) } : {},
    event: runEvent(runId, "run.cancelled", data),
  };
}

/** Returns the outcome of a run whose process has ended or is ending. */
export function interruptedOutcome(
  runId: string,
  message: string,
  pendingSteer: readonly string[] = [],
): Outcome {
  const error = { code: "interrupted", message };
  const pending = pendingSteer.length > 0 ? { pending_steer: [...pendingSteer] } : {};
  return {
    status: "interrupted",
    set: {
      error: JSON.stringify(error),
      ...(pendingSteer.length > 0 ? { pending_steer: JSON.stringify(pendingSteer) } : {}),
    },
    event: runEvent(runId, "run.interrupted", { error, ...pending }),
  };
}

interface Stats {
  readonly usage: ReturnType<typeof toRunUsage>;
  readonly stored: Partial<RunRow>;
  readonly pending: { readonly pending_steer?: string[] };
}

function stopped(runId: string, stop: RunStop | undefined, { usage, stored, pending }: Stats): Outcome {
  if (stop?.kind === "shutdown") {
    const outcome = interruptedOutcome(runId, stop.message, pending.pending_steer);
    return { ...outcome, set: { ...stored, ...outcome.set } };
  }
  if (stop?.kind === "timeout" || stop?.kind === "failure") {
    const code = stop.kind === "timeout" ? "agent_timeout" : "internal_error";
    const error = { code, message: stop.message };
    const set = { ...stored, error: JSON.stringify(error) };
    return { status: "failed", set, event: runEvent(runId, "run.failed", { error, usage, ...pending }) };
  }
  const data = { ...(stop ? { reason: stop.message } : {}), usage, ...pending };
  return { status: "cancelled", set: stored, event: runEvent(runId, "run.cancelled", data) };
}
