import { ServiceError } from "../../base/errors.ts";
import type { RunRow, SessionRow } from "../../store/schema/tables.ts";
import { AliveSessions, SessionQueue, type Started } from "./session-queue.ts";
import { Budgets } from "../usage/budgets.ts";
import type { ChildPrompt } from "../subagent/delegation.ts";
import { drainRuns, suspended, type Suspended } from "../recovery/resume.ts";
import { Execution } from "./execution.ts";
import type { AgentDeps } from "../deps.ts";
import {
  steerableText,
  type Prompt,
  type Submitted,
  busyModeOf,
  INTERRUPTED,
  recordPrompt,
  type Recorded,
} from "./prompt.ts";
import { requestStopOf, steerByStore } from "./control.ts";
import { concludeRun } from "./outcome.ts";
import { parseInput, withoutPrompt, type RunInput, runningTurn, RunStop } from "./run.ts";
import { findSession, settingsOf } from "../session/session.ts";
import { PermitOnDemand, ConcurrencyLimit, uncounted, type Permit, type RunSlot } from "./concurrency.ts";

/** Of runs that nobody waits at the wire for any more, as the process that recorded them is gone. */
const RECOVERED: RunSlot = { group: "recovered" };

/**
 * The turn queue: in each session one turn at a time, whoever asks and from whatever process, by the session's lease.
 * A prompt is recorded, with its run, before `submit` resolves; from then on it is never lost.
 */
export class RunScheduler {
  readonly #deps: AgentDeps;
  readonly #queue: SessionQueue;
  readonly #budgets: Budgets;
  readonly #gate: ConcurrencyLimit;
  readonly #onEnd: ((run: RunRow, prompt: RunInput["prompt"]) => void) | undefined;
  readonly #running = new Map<string, Execution>();
  /** Prompts being recorded and turns at work. */
  readonly #open = new Set<Promise<unknown>>();
  readonly #pendingCancellations = new PendingCancellations();
  readonly alive: AliveSessions;
  #draining = false;

  /** `onEnd` is told of each run of a kept session that ended in this process, after its end is committed. It MUST NOT throw. */
  constructor(
    deps: AgentDeps,
    options: { readonly onEnd?: (run: RunRow, prompt: RunInput["prompt"]) => void } = {},
  ) {
    this.#deps = deps;
    this.#queue = new SessionQueue(deps);
    this.#budgets = new Budgets(deps);
    this.#gate = new ConcurrencyLimit({
      max: deps.settings.maxConcurrentRuns,
      onRelease: () => this.#startWaiting(),
    });
    this.#onEnd = options.onEnd;
    this.alive = new AliveSessions({ deps, running: this.#running, waiting: () => this.#gate.sessions });
  }

  /** Can be gone through more than once, as they are at the time. */
  get #executions(): Iterable<Execution> {
    const running = this.#running;
    return { [Symbol.iterator]: () => running.values() };
  }

  /** Runs at work in this process. */
  get running(): number {
    return this.#running.size;
  }

  /** Runs that are recorded and wait for room in this process. */
  get waiting(): number {
    return this.#gate.waiting;
  }

  get draining(): boolean {
    return this.#draining;
  }

  /**
   * Records a prompt as a run and starts it, or leaves it queued when the session is busy, or when it has a slot and there
   * is no room for it yet; or gives its text to the run at work. What it does to a busy session it does in whatever process
   * that is at work.
   *
   * ServiceError `server_draining`, `too_many_concurrent_runs` (of one that would start), `session_not_found` (another
   * owner's), `session_busy` (mode reject), `queue_full`.
   */
  async submit(prompt: Prompt): Promise<Submitted> {
    if (this.#draining) this.#refuse();
    return this.#track(this.#take(this.#deps.keyLimits?.limitRuns(prompt) ?? prompt));
  }

  /**
   * Starts a sub-agent, in a session of its own that goes with it. Not counted against the limit of runs: the run that
   * waits for it is.
   */
  async spawn(child: ChildPrompt): Promise<Submitted> {
    if (this.#draining) this.#refuse();
    const { owner, cwd, parent, input } = child;
    const { todos: _, ...settings } = settingsOf(parent);
    const model = this.#deps.models.resolve(child.model);
    const prompt: Prompt = {
      address: { owner },
      seed: { source: "subagent", parentId: parent.id, settings, ...(cwd === null ? {} : { cwd }) },
      kind: "subagent",
      runId: child.runId,
      input,
      ...(model ? { model } : {}),
    };
    return this.#track(this.#take(prompt));
  }

  /** Whether a run is at work in this process. */
  isAtWork(runId: string): boolean {
    return this.#running.has(runId);
  }

  /** The run at work in a session, if it is at work in this process. */
  runningIn(sessionId: string): string | undefined {
    return [...this.#running.values()].find((running) => running.sessionId === sessionId)?.runId;
  }

  /**
   * Gives text to a running turn, whatever process it runs in. False when it is not running (any more). Once this
   * resolves with true the text is safe: the model gets it at its next step, or the final event hands it back.
   * `alsoSteer` is called in the transaction that gives it.
   */
  async steer(runId: string, text: string, { alsoSteer }: Pick<Prompt, "alsoSteer"> = {}): Promise<boolean> {
    const here = this.#running.get(runId);
    return here && !alsoSteer ? here.steer(text) : steerByStore(this.#deps, { runId, text, alsoSteer });
  }

  /**
   * Asks a run to stop, whatever process it runs in. A queued run is cancelled at once; a running one goes through
   * `stopping`. False when it has ended.
   */
  async stop(runId: string, reason: string): Promise<boolean> {
    const { store } = this.#deps;
    const stop = new RunStop("cancelled", reason);
    const execution = this.#running.get(runId);
    if (!execution) {
      this.#pendingCancellations.note(runId, stop);
      const { cancelled, isStopping } = await store.write(async (tx) => {
        const cancelled = await this.#queue.cancelQueued(tx, runId, reason);
        return { cancelled, isStopping: !cancelled && (await requestStopOf(tx, store, runId, reason)) };
      });
      if (cancelled) await this.#waitNoMore(cancelled.session_id);
      return cancelled !== undefined || isStopping;
    }
    await execution.stop(stop);
    return true;
  }

  /**
   * Takes no more prompts and waits for the running turns; those still at work after `graceMs` are cut and end as
   * interrupted. Queued runs stay queued for the next start, and runs that wait for leave without a client stay waiting.
   */
  async drain(graceMs: number): Promise<void> {
    this.#draining = true;
    this.#startWaiting();
    const onCut = () => this.alive.cut();
    await drainRuns(this.#executions, this.#deps, { graceMs, settled: this.#settled(), onCut });
  }

  /**
   * Starts the next queued run of a session whose lease this process holds, once there is room for it, or gives the lease
   * back.
   */
  async continueSession(sessionId: string): Promise<void> {
    const slot = await this.#queue.slotOfNext(sessionId, RECOVERED);
    if (slot && !this.#gate.hasFreeSlot(slot)) return this.#wait(sessionId, slot);
    await this.#continue(sessionId, this.#gate.acquire(slot));
  }

  /** Takes a run up that another process left waiting, in a session whose lease this process holds. */
  async resume(run: RunRow, session: SessionRow): Promise<void> {
    const { store } = this.#deps;
    const left = await store.write(async (tx) => {
      const left = this.#draining ? undefined : await suspended(tx, run);
      await (left ? this.#queue.resume(tx, run) : this.#queue.park(tx, session.id));
      return left;
    });
    if (left) this.#execute({ run, session, input: parseInput(run) }, { suspended: left });
  }

  /** Leaves a session to whoever looks after sessions next, this process included. */
  async letGo(sessionId: string): Promise<void> {
    await this.#deps.store.write((tx) => this.#queue.park(tx, sessionId));
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

  #refuse(): never {
    throw new ServiceError("server_draining", "The server is shutting down. Try again in a moment.", {
      retryAfterSeconds: 1,
    });
  }

  /** Starts what waits as far as there is room; at the end of the process it is left to the next start. */
  #startWaiting(): void {
    const left = this.#draining ? this.#gate.takeAll() : [];
    for (const sessionId of left) void this.#track(this.#continueWaiting(sessionId, uncounted));
    for (let ready = this.#gate.next(); ready; ready = this.#gate.next()) {
      void this.#track(this.#continueWaiting(ready.sessionId, ready.permit));
    }
  }

  /** What cannot be started is left to recovery, which looks for it again and again. Never rejects. */
  async #continueWaiting(sessionId: string, permit: Permit): Promise<void> {
    try {
      await this.#continue(sessionId, permit);
    } catch (error) {
      this.#deps.log.error("a run that waited could not be started yet", { session: sessionId, error });
      await this.letGo(sessionId).catch(() => {});
    }
  }

  async #continue(sessionId: string, permit: Permit): Promise<void> {
    const { store } = this.#deps;
    const successor = this.#queue.successor(sessionId, { hold: () => this.#draining });
    let next: Started | undefined;
    try {
      next = await this.alive.start(sessionId, () => store.write(successor.next));
    } finally {
      if (!next) permit.release();
    }
    if (next) this.#execute(next, { permit });
  }

  async #take(prompt: Prompt): Promise<Submitted> {
    const isCounted = prompt.kind !== "subagent";
    const permit = new PermitOnDemand(() => (isCounted ? this.#gate.admit(prompt.input.slot) : uncounted));
    const { id, name, key } = prompt.address;
    // One in a session of its own is certain to start: it is refused before anything is asked of the database.
    if ((id ?? name ?? key) === undefined) permit.take();
    try {
      return await this.#place(prompt, permit);
    } catch (error) {
      permit.release();
      throw error;
    }
  }

  async #place(prompt: Prompt, permit: PermitOnDemand): Promise<Submitted> {
    await this.#budgets.refresh(prompt.address.owner);
    const text = busyModeOf(prompt, this.#deps) === "steer" ? steerableText(prompt) : undefined;
    const work = { deps: this.#deps, queue: this.#queue };
    // Once more when the session came to be at work between the two.
    for (let steersFirst = text !== undefined; ; steersFirst = false) {
      const steered = text === undefined ? undefined : await this.#steerInto(prompt, text);
      if (steered) return steered;
      const recorded = await recordPrompt(work, { prompt, permit, steersFirst });
      if (recorded) return this.#begin(recorded, prompt, permit);
    }
  }

  /** Undefined when no turn takes the text, in whatever process: then it is a prompt like any. */
  async #steerInto(prompt: Prompt, text: string): Promise<Submitted | undefined> {
    const { store, clock } = this.#deps;
    const session = await findSession(store, prompt.address);
    if (!session) return undefined;
    const { id: sessionId, session_key: sessionKey } = session;
    const running = await runningTurn(store, sessionId);
    if (!running?.isTurn || !(await this.steer(running.runId, text, prompt))) return undefined;
    const { runId, model } = running;
    return { runId, sessionId, sessionKey, model, status: "steered", createdAtMs: clock.now() };
  }

  #begin(recorded: Recorded, { input }: Prompt, permit: PermitOnDemand): Submitted {
    const { run, session, isNew, isLeased, position, interrupted } = recorded;
    if (position === 0) this.#execute(recorded, { fresh: isNew, permit: permit.take() });
    else if (isLeased && input.slot) this.#wait(session.id, input.slot);
    else permit.release();
    if (interrupted !== undefined) this.#interrupt(interrupted);
    return {
      runId: run.id,
      sessionId: session.id,
      sessionKey: session.session_key,
      model: run.model,
      createdAtMs: run.created_at,
      ...(position === 0 ? { status: "running" } : { status: "queued", queuePosition: position }),
    };
  }

  /** Stops a run of which the store says so already; another process hears it from there. */
  #interrupt(runId: string): void {
    const stop = new RunStop("cancelled", INTERRUPTED);
    const execution = this.#running.get(runId);
    if (execution) void this.#track(this.#stopEarly(execution, stop));
    else this.#pendingCancellations.note(runId, stop);
  }

  /** A session in which nothing waits any more has nothing to wait for. */
  async #waitNoMore(sessionId: string): Promise<void> {
    if (!this.#gate.isWaiting(sessionId) || !(await this.#queue.isEmpty(sessionId))) return;
    if (this.#gate.forget(sessionId)) await this.continueSession(sessionId);
  }

  /** For a run with its session's lease. Room made meanwhile, or a drain begun, did not find it: they are looked at. */
  #wait(sessionId: string, slot: RunSlot): void {
    this.#gate.wait(sessionId, slot);
    this.#startWaiting();
  }

  #execute(
    { run, session, input }: Started,
    how: { readonly fresh?: boolean; readonly suspended?: Suspended; readonly permit?: Permit } = {},
  ): void {
    const { fresh = false, suspended } = how;
    const started: Started = { run: withoutPrompt(run, input), session, input };
    const isCounted = started.run.kind !== "subagent";
    const permit = how.permit ?? (isCounted ? this.#gate.acquire(started.input.slot) : uncounted);
    const budget = this.#budgets.open(started.run, started.input);
    const execution = new Execution({
      deps: this.#deps,
      ...started,
      budget,
      spawner: this,
      fresh,
      suspended,
    });
    this.#running.set(started.run.id, execution);
    const stop = this.#pendingCancellations.of(started.run.id);
    if (stop) void this.#track(this.#stopEarly(execution, stop));
    void this.#track(this.#conclude(execution, started).finally(permit.release));
  }

  async #stopEarly(execution: Execution, stop: RunStop): Promise<void> {
    try {
      await execution.stop(stop);
    } catch (error) {
      // It ends all the same; only that it was stopping could not be told.
      this.#deps.log.warn("the stop of a run could not be recorded", { run: execution.runId, error });
    }
  }

  async #conclude(execution: Execution, { run, session, input }: Started): Promise<void> {
    const isStateless = session.transient === 1;
    const deps = this.#deps;
    const successor = this.#queue.successor(session.id, { hold: () => this.#draining });
    try {
      const next = await execution.run({
        end: (tx, outcome) => concludeRun(tx, { run, isStateless, deps }, outcome),
        next: successor.next,
        ended: successor.begun,
        attempts: (write) => this.alive.end(run.id, write),
      });
      this.#running.delete(run.id);
      if (execution.isParked) return await deps.store.write((tx) => this.#queue.park(tx, session.id));
      if (!isStateless) this.#onEnd?.(run, input.prompt);
      if (next) this.#execute(next);
    } catch (error) {
      // Nothing is alive in the session from here on. Its lease runs out, and recovery closes the run.
      deps.log.error("the end of a run could not be recorded", { run: run.id, error });
    } finally {
      this.#running.delete(run.id);
      this.#budgets.close(run.id);
    }
  }
}

const MAX_NOTED = 1_000;

/**
 * Runs that were to stop while they waited: one that begins before that is written does nothing. Only the last 1,000 are
 * known; of others the store alone decides.
 */
export class PendingCancellations {
  readonly #stops = new Map<string, RunStop>();

  note(runId: string, stop: RunStop): void {
    this.#stops.set(runId, stop);
    const [oldest] = this.#stops.size > MAX_NOTED ? this.#stops.keys() : [];
    if (oldest !== undefined) this.#stops.delete(oldest);
  }

  of(runId: string): RunStop | undefined {
    return this.#stops.get(runId);
  }
}
