/** Takes over sessions whose process or run has ended, inside one transaction. */
import { leaseFor, isOneOf, UNLEASED } from "../../store/tx/tx.ts";
import type { RunUsage } from "../../../generated/http/client/types.gen.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { RunRow, SessionRow } from "../../store/schema/tables.ts";
import { type AliveSessions, LEASE_MS } from "../run/session-queue.ts";
import { cancelOpenQuestions } from "../question/questions.ts";
import { addAllMessages } from "../session/transcript.ts";
import { cancelledOutcome, interruptedOutcome, concludeAllRuns } from "../run/control.ts";
import { type Outcome } from "../run/run.ts";
import { readRunUsage } from "../usage/usage.ts";
import type { AgentDeps } from "../deps.ts";
import { questionsOf, suspended, type KnownRecords, startAgain } from "./resume.ts";
import {
  answeredRuns,
  cutCalls,
  pendingSteers,
  rebuildStep,
  reportedUsage,
  steerEventsOf,
  unsavedEventsOf,
  type RunRecord,
} from "./rebuild-step.ts";

const PROCESS_ENDED = "The server process that ran this ended before the run did.";
const END_LOST = "The end of this run could not be written to the database, so its outcome is unknown.";

/** A session that was taken over. */
export interface Taken {
  readonly session: SessionRow;
  /** A run to resume. */
  readonly waiting?: RunRow;
  /** True: nothing is queued, and the lease was released. */
  readonly isFree?: boolean;
}

/**
 * Takes over `sessions`, all leased by one owner, except those that another process took first. Their runs end, keep
 * waiting or are queued again. Reads and writes are batched, since a database may be far away. `alive` has the sessions
 * that are alive in this process.
 */
export async function takeOver(
  tx: Tx,
  deps: AgentDeps,
  from: { readonly sessions: readonly SessionRow[]; readonly alive: Pick<AliveSessions, "all"> },
): Promise<readonly Taken[]> {
  const { store } = deps;
  const { sessions } = from;
  const alive = from.alive.all;
  const dead = sessions.filter(({ id }) => !alive.has(id));
  const mine = await lease(tx, store, dead);
  const ids = mine.map(({ id }) => id);
  const known = await readDead(tx, store, mine);
  const waiting = new Map<string, RunRow>();
  // All must settle before an error is thrown: none may query in the next transaction.
  const decisions = await Promise.allSettled(
    known.map(async (one): Promise<DeadRun | undefined> => {
      const { run, isAlone } = one;
      if (isAlone && (await suspended(tx, run, one))) waiting.set(run.session_id, run);
      else if (!(await startAgain(tx, run, deps))) return one;
      return undefined;
    }),
  );
  const over = decisions.flatMap((decision) => {
    if (decision.status === "rejected") throw decision.reason;
    return decision.value ?? [];
  });
  const reason = dead[0]?.lease_owner === store.owner ? END_LOST : PROCESS_ENDED;
  await closeAll(tx, deps, { dead: over, reason });
  const free = await release(
    tx,
    store,
    ids.filter((id) => !waiting.has(id)),
  );
  return mine.map((session) => {
    const run = waiting.get(session.id);
    return { session, isFree: free.has(session.id), ...(run ? { waiting: run } : {}) };
  });
}

/** Takes the leases that are still available. */
async function lease(tx: Tx, store: Store, dead: readonly SessionRow[]): Promise<readonly SessionRow[]> {
  const owner = dead[0]?.lease_owner;
  if (owner === undefined || owner === null) return [];
  const ids = dead.map(({ id }) => id);
  const update = tx.db
    .updateTable("sessions")
    .set(leaseFor(tx, store.owner, LEASE_MS))
    .where(isOneOf(tx, "id", ids))
    // Not `=`: PostgreSQL would read the index of all leases of this owner.
    .where("lease_owner", "is not distinct from", owner);
  // Our clock may be ahead of the store's, by which leases expire.
  const due = store.ownerIsDead(owner) ? update : update.where("lease_until", "<", tx.nowMs);
  const taken = new Set((await due.returning("id").execute()).map(({ id }) => id));
  return dead.filter(({ id }) => taken.has(id));
}

/** Releases the leases of the sessions without queued runs. */
async function release(tx: Tx, store: Store, ids: readonly string[]): Promise<ReadonlySet<string>> {
  if (ids.length === 0) return new Set();
  const free = await tx.db
    .updateTable("sessions")
    .set({ ...UNLEASED, updated_at: tx.nowMs })
    .where(isOneOf(tx, "id", ids))
    .where("lease_owner", "=", store.owner)
    .where("queued", "=", 0)
    .returning("id")
    .execute();
  return new Set(free.map(({ id }) => id));
}

/** Ends runs whose process has ended, with their last step rebuilt from the journal. */
async function closeAll(
  tx: Tx,
  deps: AgentDeps,
  { dead, reason }: { readonly dead: readonly DeadRun[]; readonly reason: string },
): Promise<void> {
  const { store } = deps;
  for (const { run, questions } of dead) {
    if (questions.some(({ status }) => status === "open")) await cancelOpenQuestions(tx, store, run.id);
  }
  const ends = dead.map((one) => ({ ...one, outcome: outcomeOf(one, reason) }));
  await addAllMessages(
    tx,
    ends.map(({ run, step }) => ({ sessionId: run.session_id, runId: run.id, messages: rebuildStep(step) })),
  );
  await concludeAllRuns(tx, deps, ends);
  await store.journal.appendAll(
    tx,
    ends.map(({ run, step, outcome }) => ({
      sessionId: run.session_id,
      events: [...cutCalls(run.id, step), outcome.event],
    })),
  );
}

function outcomeOf({ run, steers, usage }: DeadRun, reason: string): Outcome {
  const pending = pendingSteers(steers);
  const outcome =
    run.stop_requested === 1
      ? cancelledOutcome(run.id, pending)
      : interruptedOutcome(run.id, reason, pending);
  if (!usage) return outcome;
  const set = { ...outcome.set, usage: JSON.stringify(usage) };
  return { ...outcome, set, usage: readRunUsage(usage, run.model) };
}

/** A run that was active when its process ended, with its records. */
interface DeadRun extends KnownRecords {
  readonly run: RunRow;
  /** No other run of its session is active. */
  readonly isAlone: boolean;
  readonly steers: readonly RunRecord[];
  /** The surface that created its session. */
  readonly source: string;
  /** What its saved steps used. */
  readonly usage: RunUsage | undefined;
  /** The events of its unsaved step. */
  readonly step: readonly RunRecord[];
}

/** Returns the running runs of sessions, inside `tx`. From here on none accepts steering. */
async function readDead(
  tx: Tx,
  { dialect }: Store,
  sessions: readonly SessionRow[],
): Promise<readonly DeadRun[]> {
  const sessionIds = sessions.map(({ id }) => id);
  if (sessionIds.length === 0) return [];
  const sources = new Map(sessions.map(({ id, source }) => [id, source]));
  const query = tx.db
    .selectFrom("runs")
    .selectAll()
    .where(isOneOf(tx, "session_id", sessionIds))
    // PostgreSQL would read the index of all open runs for `is null`: here they are many.
    .where(({ fn, lit }) => fn.coalesce("ended_at", lit(0)), "=", 0)
    .where("status", "!=", "queued");
  // A process that steers locks the row until it commits. SQLite has one writer and no row locks.
  const runs = await (dialect === "postgres" ? query.forUpdate() : query).execute();
  const ids = runs.map(({ id }) => id);
  if (ids.length === 0) return [];
  const counts = new Map<string, number>();
  for (const { session_id: id } of runs) counts.set(id, (counts.get(id) ?? 0) + 1);
  // Together: none needs the answer of another.
  const [asked, unsaved, steers, answered] = await Promise.all([
    questionsOf(tx, ids),
    unsavedEventsOf(tx, ids),
    steerEventsOf(tx, ids),
    answeredRuns(tx, sessionIds),
  ]);
  const questions = Map.groupBy(asked, ({ run_id: runId }) => runId);
  return runs.map((run) => {
    const events = unsaved.get(run.id) ?? [];
    return {
      run,
      isAlone: counts.get(run.session_id) === 1,
      questions: questions.get(run.id) ?? [],
      events,
      steers: steers.get(run.id) ?? [],
      source: sources.get(run.session_id) ?? "",
      usage: reportedUsage(events),
      step: answered.has(run.id) ? [] : events,
    };
  });
}
