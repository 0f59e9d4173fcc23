import { ServiceError } from "../base/errors.ts";
import { createId } from "../base/ids.ts";
import type { Tx } from "../store/store.ts";
import type { RunRow, SessionRow } from "../store/tables.ts";
import { runEvent } from "./event.ts";
import { Execution } from "./execution.ts";
import { addMessages } from "./history.ts";
import type { ModelRef } from "./engine.ts";
import { formatModel } from "./model.ts";
import type { Outcome } from "./outcome.ts";
import type { AgentParts, BusyMode } from "./parts.ts";
import { endRun, parseInput, type RunInput, type RunKind } from "./run.ts";
import { findSession, newSession, releaseLease, takeLease, type SessionAddress, type SessionSeed } from "./session.ts";
import { RunStop } from "./stop.ts";

/** How long a process may be silent before others take its sessions over. Renewed at a third of it. */
export const LEASE_MS = 30_000;

export interface Prompt {
  readonly address: SessionAddress;
  readonly seed: SessionSeed;
  readonly kind: RunKind;
  /**
   * What the run is asked. `opening` is the conversation before the prompt, for a session that does not exist yet;
   * a session that exists has its own.
   */
  readonly input: RunInput & { readonly opening?: RunInput["prompt"] };
  /** Undefined: the session's own model, else the default. */
  readonly model?: ModelRef;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly whenBusy?: BusyMode;
  /** Called with the run's id before anything is committed: follow the run from its first event. */
  readonly beforeStart?: (runId: string) => void;
}

export interface Submitted {
  readonly runId: string;
  readonly sessionId: string;
  readonly sessionKey: string | null;
  /** Effective `provider:model`. */
  readonly model: string;
  readonly status: "running" | "queued" | "steered";
}

/**
 * The turn queue: in each session one turn at a time, whoever asks and from whatever process, by the session's lease.
 * A prompt is recorded, with its run, before `submit` resolves; from then on it is never lost.
 */
export class Turns {
  readonly #parts: AgentParts;
  readonly #running = new Map<string, Execution>();
  /** Prompts being recorded and turns at work. */
  readonly #open = new Set<Promise<unknown>>();
  /** Allowed for the rest of the session; kept while this process has worked in it lately. */
  readonly #grants = new Map<string, Set<string>>();
  #starting = 0;
  #draining = false;

  constructor(parts: AgentParts) {
    this.#parts = parts;
  }

  /** Runs at work in this process. */
  get running(): number {
    return this.#running.size;
  }

  /**
   * Records a prompt as a run and starts it, or leaves it queued when the session is busy.
   *
   * ServiceError `server_draining`, `too_many_concurrent_runs`, `session_not_found` (another owner's),
   * `session_busy` (mode reject), `queue_full`.
   */
  async submit(prompt: Prompt): Promise<Submitted> {
    this.#admit();
    this.#starting++;
    return this.#track(this.#take(prompt).finally(() => this.#starting--));
  }

  /** Gives text to a running turn. False when it is not running here (any more). */
  steer(runId: string, text: string): boolean {
    return this.#running.get(runId)?.steer(text) ?? false;
  }

  /**
   * Asks a run to stop. A queued run is cancelled at once; a running one goes through `stopping`.
   * False when it has ended or runs in another process.
   */
  async stop(runId: string, reason: string): Promise<boolean> {
    const execution = this.#running.get(runId);
    if (execution) {
      await execution.stop(new RunStop("cancelled", reason));
      return true;
    }
    return this.#parts.store.write((tx) => this.#cancelQueued(tx, runId, reason));
  }

  /**
   * Takes no more prompts and waits for the running turns; those still at work after `graceMs` are cut and end as
   * interrupted. Queued runs stay queued for the next start.
   */
  async drain(graceMs: number): Promise<void> {
    this.#draining = true;
    const grace = new AbortController();
    const patience = this.#parts.clock.sleep(graceMs, { signal: grace.signal }).catch(() => {});
    const finished = this.#settled();
    await Promise.race([finished, patience]);
    for (const execution of this.#running.values()) {
      await execution.stop(new RunStop("shutdown", "The server was shut down while the run was at work."));
    }
    await finished;
    grace.abort();
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** Starts the next queued run of a session whose lease this process holds, or gives the lease back. */
  async continueSession(sessionId: string): Promise<void> {
    const next = await this.#parts.store.write((tx) => this.#next(tx, sessionId));
    if (next) this.#execute(next.run, next.session, false);
  }

  async #settled(): Promise<void> {
    while (this.#open.size > 0) await Promise.allSettled(this.#open);
  }

  /** Work that a drain waits for. */
  #track<T>(work: Promise<T>): Promise<T> {
    const tracked = work.finally(() => this.#open.delete(tracked));
    this.#open.add(tracked);
    return tracked;
  }

  async #take(prompt: Prompt): Promise<Submitted> {
    const found = await findSession(this.#parts.store, prompt.address);
    return (found && this.#steerInstead(found, prompt)) ?? (await this.#record(prompt, found));
  }

  #admit(): void {
    if (this.#draining) {
      throw new ServiceError("server_draining", "The server is shutting down. Try again in a moment.", {
        retryAfterSeconds: 1,
      });
    }
    const { maxConcurrentRuns } = this.#parts.settings;
    if (maxConcurrentRuns > 0 && this.#running.size + this.#starting >= maxConcurrentRuns) {
      throw new ServiceError(
        "too_many_concurrent_runs",
        `${maxConcurrentRuns} runs are at work, which is the limit (limits.max_concurrent_runs). Try again when one has ended.`,
        { retryAfterSeconds: 1 },
      );
    }
  }

  #steerInstead(session: SessionRow, prompt: Prompt): Submitted | undefined {
    if ((prompt.whenBusy ?? this.#parts.settings.whenBusy) !== "steer") return undefined;
    const execution = [...this.#running.values()].find((running) => running.sessionId === session.id);
    const text = prompt.input.prompt
      .map((message) => (message.role === "user" ? message.text : ""))
      .filter((part) => part !== "")
      .join("\n\n");
    if (!execution?.steer(text)) return undefined;
    prompt.beforeStart?.(execution.runId);
    return {
      runId: execution.runId,
      sessionId: session.id,
      sessionKey: session.session_key,
      model: execution.model,
      status: "steered",
    };
  }

  async #record(prompt: Prompt, found: SessionRow | undefined): Promise<Submitted> {
    const { store, clock } = this.#parts;
    const runId = createId("run", clock.now());
    const made = newSession(prompt.address, prompt.seed, clock.now());
    prompt.beforeStart?.(runId);
    const recorded = await store.write(async (tx) => {
      const session = found ?? (await this.#insertSession(tx, made));
      const isNew = session === made;
      const run = this.#runRow(runId, session, { prompt, isNew, nowMs: tx.nowMs });
      const leased = isNew || (await takeLease(tx, session.id, { owner: store.owner, ms: LEASE_MS }));
      if (!leased) await this.#enqueue(tx, session, run, prompt);
      else await this.#insertRunning(tx, run);
      return { run, session, isNew, leased };
    });
    const { run, session, isNew, leased } = recorded;
    if (leased) this.#execute(run, session, isNew);
    return {
      runId,
      sessionId: session.id,
      sessionKey: session.session_key,
      model: run.model,
      status: leased ? "running" : "queued",
    };
  }

  /** Inserts the session with the lease taken. When another process made the same id first, that one is used. */
  async #insertSession(tx: Tx, session: SessionRow): Promise<SessionRow> {
    if (session.transient === 0) {
      const existing = await tx.db.selectFrom("sessions").selectAll().where("id", "=", session.id).executeTakeFirst();
      if (existing?.owner === session.owner) return existing;
      if (existing) throw new ServiceError("session_not_found", `There is no session ${JSON.stringify(session.id)}.`);
    }
    const leased = { lease_owner: this.#parts.store.owner, lease_until: tx.nowMs + LEASE_MS };
    await tx.insert("sessions", [{ ...session, ...leased }]);
    return session;
  }

  #runRow(
    runId: string,
    session: SessionRow,
    from: { readonly prompt: Prompt; readonly isNew: boolean; readonly nowMs: number },
  ): RunRow {
    const { opening = [], ...input } = from.prompt.input;
    const prompt = from.isNew ? [...opening, ...input.prompt] : input.prompt;
    const { models } = this.#parts;
    const own = session.model === null ? undefined : models.resolve(session.model);
    return {
      id: runId,
      session_id: session.id,
      owner: session.owner,
      kind: from.prompt.kind,
      parent_id: null,
      status: "queued",
      model: formatModel(from.prompt.model ?? own ?? models.default),
      input: JSON.stringify({ ...input, prompt } satisfies RunInput),
      output: null,
      usage: null,
      error: null,
      metadata: JSON.stringify(from.prompt.metadata ?? {}),
      last_seq: 0,
      last_event: null,
      stop_requested: 0,
      created_at: from.nowMs,
      started_at: null,
      updated_at: from.nowMs,
      ended_at: null,
    };
  }

  /** The usual case, in as few statements as it takes: a run that starts as it is recorded. */
  async #insertRunning(tx: Tx, run: RunRow): Promise<void> {
    const { store } = this.#parts;
    const { session_id: sessionId, id: runId } = run;
    await tx.insert("runs", [{ ...run, status: "running", started_at: tx.nowMs }]);
    await addMessages(tx, { sessionId, runId }, parseInput(run).prompt);
    await store.journal.append(tx, sessionId, [queuedEvent(run), startedEvent(run)]);
  }

  async #enqueue(tx: Tx, session: SessionRow, run: RunRow, prompt: Prompt): Promise<void> {
    const { store, settings } = this.#parts;
    if ((prompt.whenBusy ?? settings.whenBusy) === "reject") {
      throw new ServiceError("session_busy", "The session is at work (session busy). Wait for its run to end.", {
        retryAfterSeconds: 1,
      });
    }
    const waiting = await tx.increment("sessions", { id: session.id }, "queued", 1);
    if ((waiting ?? 1) > settings.maxQueuePerSession) {
      throw new ServiceError(
        "queue_full",
        `${settings.maxQueuePerSession} prompts wait in this session, which is the limit (sessions.max_queue).`,
        { retryAfterSeconds: 1 },
      );
    }
    await tx.insert("runs", [run]);
    await store.journal.append(tx, session.id, [queuedEvent(run)]);
  }

  async #cancelQueued(tx: Tx, runId: string, reason: string): Promise<boolean> {
    const row = await tx.db
      .selectFrom("runs")
      .selectAll()
      .where("id", "=", runId)
      .where("status", "=", "queued")
      .executeTakeFirst();
    if (!row || !(await endRun(tx, runId, "cancelled", { stop_requested: 1 }))) return false;
    await tx.increment("sessions", { id: row.session_id }, "queued", -1);
    await this.#parts.store.journal.append(tx, row.session_id, [runEvent(runId, "run.cancelled", { reason })]);
    return true;
  }

  #execute(run: RunRow, session: SessionRow, fresh: boolean): void {
    const grants = this.#grantsOf(session.id);
    const execution = new Execution({ parts: this.#parts, run, session, grants, fresh });
    this.#running.set(run.id, execution);
    void this.#track(this.#conclude(execution, run));
  }

  async #conclude(execution: Execution, run: RunRow): Promise<void> {
    const { log } = this.#parts;
    try {
      const next = await execution.run((tx, outcome) => this.#finish(tx, run, outcome));
      this.#running.delete(run.id);
      if (next) this.#execute(next.run, next.session, false);
    } catch (error) {
      // The end could not be written. The lease runs out and recovery closes the run as interrupted.
      log.error("the end of a run could not be recorded", { run: run.id, error });
      this.#running.delete(run.id);
    }
  }

  /** Writes a run's end and what follows it: the session's next run, or its lease given back. */
  async #finish(tx: Tx, run: RunRow, outcome: Outcome): Promise<Started | undefined> {
    const { store } = this.#parts;
    if (!(await endRun(tx, run.id, outcome.status, outcome.set))) return undefined; // recovered by another process
    await store.journal.append(tx, run.session_id, [outcome.event]);
    return this.#next(tx, run.session_id);
  }

  async #next(tx: Tx, sessionId: string): Promise<Started | undefined> {
    const { store } = this.#parts;
    if (await releaseLease(tx, sessionId, store.owner)) return undefined;
    const session = await tx.db.selectFrom("sessions").selectAll().where("id", "=", sessionId).executeTakeFirst();
    if (session?.lease_owner !== store.owner) return undefined;
    const run = this.#draining ? undefined : await oldestQueued(tx, sessionId);
    if (!run) {
      await tx.update("sessions", { id: sessionId }, { lease_owner: null, lease_until: 0 });
      return undefined;
    }
    await tx.increment("sessions", { id: sessionId }, "queued", -1);
    const started = { status: "running", started_at: tx.nowMs, updated_at: tx.nowMs };
    await tx.update("runs", { id: run.id, status: "queued" }, started);
    await addMessages(tx, { sessionId, runId: run.id }, parseInput(run).prompt);
    await store.journal.append(tx, sessionId, [startedEvent(run)]);
    return { run, session };
  }

  #grantsOf(sessionId: string): Set<string> {
    const grants = this.#grants.get(sessionId) ?? new Set<string>();
    this.#grants.delete(sessionId);
    this.#grants.set(sessionId, grants);
    if (this.#grants.size > MAX_GRANT_SESSIONS) {
      const [oldest] = this.#grants.keys();
      if (oldest !== undefined) this.#grants.delete(oldest);
    }
    return grants;
  }
}

/** Sessions whose grants are remembered; the longest unused go first, and ask again. */
const MAX_GRANT_SESSIONS = 1000;

interface Started {
  readonly run: RunRow;
  readonly session: SessionRow;
}

function oldestQueued(tx: Tx, sessionId: string): Promise<RunRow | undefined> {
  return tx.db
    .selectFrom("runs")
    .selectAll()
    .where("session_id", "=", sessionId)
    .where("status", "=", "queued")
    .orderBy("created_at")
    .orderBy("id")
    .limit(1)
    .executeTakeFirst();
}

const about = (run: RunRow) => ({
  session_id: run.session_id,
  model: run.model,
  kind: run.kind as RunKind,
});
const queuedEvent = (run: RunRow) => runEvent(run.id, "run.queued", about(run));
const startedEvent = (run: RunRow) => runEvent(run.id, "run.started", about(run));
