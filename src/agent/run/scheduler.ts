import { RunReads } from "./queries.ts";
import { OngoingMap } from "../../base/time.ts";
import { ServiceError } from "../../base/errors.ts";
import type { RunRow, SessionRow } from "../../store/schema/tables.ts";
import {
  AliveSessions,
  SessionQueue,
  type Started,
  PermitOnDemand,
  ConcurrencyLimit,
  uncounted,
  type Permit,
} from "./session-queue.ts";
import { Budgets, type Budget } from "../usage/budgets.ts";
import type { ChildPrompt } from "../subagent/delegation.ts";
import { drainRuns, suspended, type Suspended } from "../recovery/resume.ts";
import { Execution } from "./execution.ts";
import type { AgentDeps } from "../deps.ts";
import { steerableText, busyModeOf, INTERRUPTED, recordPrompt, type Recorded } from "./prompt.ts";
import {
  type Prompt,
  type Submitted,
  parseInput,
  withoutPrompt,
  type RunInput,
  runningTurn,
  RunStop,
  type RunSlot,
} from "./run.ts";
import { followEnd, requestStopOf, steerByStore, type StopRequest } from "./control.ts";
import { findSession, settingsOf } from "../session/session.ts";

/** Slot of runs whose recording process has ended, so that no client waits for them. */
const RECOVERED: RunSlot = { group: "recovered" };

/**
 * The run scheduler: the session's lease allows one run at a time in each session, over all processes. A prompt is
 * recorded, with its run, before `submit` resolves; from then on it is never lost.
 */
export class RunScheduler {
  readonly reads: RunReads;
  readonly #deps: AgentDeps;
  readonly #queue: SessionQueue;
  readonly #budgets: Budgets;
  readonly #limit: ConcurrencyLimit;
  readonly #onStart = new Set<(run: RunRow) => void>();
  readonly #onEnd: ((run: RunRow, prompt: RunInput["prompt"]) => void) | undefined;
  readonly #running = new OngoingMap<string, Execution>();
  /** Prompts being recorded and running runs. */
  readonly #open = new OngoingMap<number, Promise<unknown>>();
  #lastOpen = 0;
  readonly #pendingCancellations = new PendingCancellations();
  readonly alive: AliveSessions;
  #draining = false;

  /**
   * `onEnd` is called for each run of a kept session that ended in this process, after the commit. It MUST NOT throw.
   */
  constructor(
    deps: AgentDeps,
    options: {
      readonly onEnd?: (run: RunRow, prompt: RunInput["prompt"]) => void;
    } = {},
  ) {
    this.#deps = deps;
    this.reads = new RunReads(deps.store);
    this.#queue = new SessionQueue(deps);
    this.#budgets = new Budgets(deps);
    this.#limit = new ConcurrencyLimit({
      max: deps.settings.maxConcurrentRuns,
      onRelease: () => this.#startWaiting(),
    });
    this.#onEnd = options.onEnd;
    this.alive = new AliveSessions({ deps, running: this.#running, waiting: () => this.#limit.sessions });
  }

  /** Can be iterated repeatedly, each time over the current runs. */
  get #executions(): Iterable<Execution> {
    const running = this.#running;
    return { [Symbol.iterator]: () => running.values() };
  }

  /** Calls `notify` for each run that starts in this process, until the returned function is called. It MUST NOT throw. */
  onStart(notify: (run: RunRow) => void): () => void {
    this.#onStart.add(notify);
    return () => void this.#onStart.delete(notify);
  }

  /** Returns whether a run in this process uses a model of the provider. */
  isUsing(provider: string): boolean {
    return this.#running.values().some(({ model }) => model.startsWith(`${provider}:`));
  }

  /** Number of running runs in this process. */
  get running(): number {
    return this.#running.size;
  }

  /** Number of recorded runs that wait for a permit in this process. */
  get waiting(): number {
    return this.#limit.waiting;
  }

  get draining(): boolean {
    return this.#draining;
  }

  /**
   * Records a prompt as a run and starts it. The run is queued when the session is busy, or when it has a slot and the
   * limit of concurrent runs is reached. In mode `steer` the text goes to the running run instead, in whichever process
   * that runs.
   *
   * ServiceError `server_draining`, `too_many_concurrent_runs` (for a run that would start), `session_not_found` (another
   * owner's), `session_busy` (mode reject), `queue_full`.
   */
  async submit(prompt: Prompt): Promise<Submitted> {
    if (this.#draining) this.#refuse();
    return this.#track(this.#take(this.#deps.keyLimits?.limitRuns(prompt) ?? prompt));
  }

  /**
   * Starts a sub-agent in a session of its own, which is deleted with it. Does not count against the limit of runs, since
   * the run that waits for it does.
   */
  async spawn(child: ChildPrompt): Promise<Submitted> {
    if (this.#draining) this.#refuse();
    const { owner, apiKey, cwd, parent, input } = child;
    const { todos: _, ...settings } = settingsOf(parent);
    const model = this.#deps.models.resolve(child.model);
    const prompt: Prompt = {
      address: { owner },
      seed: { source: "subagent", parentId: parent.id, settings, ...(cwd === null ? {} : { cwd }) },
      kind: "subagent",
      apiKey,
      runId: child.runId,
      input,
      ...(model ? { model } : {}),
    };
    return this.#track(this.#take(prompt));
  }

  /** Opens the budget of model calls that belong to no run, beside those of the runs. */
  openBudget(paid: { readonly owner: string; readonly key: string | null }): Promise<Budget> {
    return this.#budgets.openAlone(paid);
  }

  /** Whether a run is running in this process. */
  isAtWork(runId: string): boolean {
    return this.#running.has(runId);
  }

  /** Returns the running run of a session, if this process runs it. */
  runningIn(sessionId: string): string | undefined {
    return [...this.#running.values()].find((running) => running.sessionId === sessionId)?.runId;
  }

  /**
   * Adds text to a running turn, in whichever process it runs. False when it is not running. Once this resolves to true
   * the text is durable: the model gets it at its next step, or the final event returns it. `alsoSteer` is called in the
   * same transaction.
   */
  async steer(runId: string, text: string, { alsoSteer }: Pick<Prompt, "alsoSteer"> = {}): Promise<boolean> {
    const here = this.#running.get(runId);
    return here && !alsoSteer ? here.steer(text) : steerByStore(this.#deps, { runId, text, alsoSteer });
  }

  /**
   * Stops a run, in whichever process it runs. A queued run is cancelled at once; a running one goes through `stopping`.
   * The feed names `by`, such as the name of a key, as who requested it. False when it has ended.
   */
  async stop(runId: string, reason: string, { by }: Pick<StopRequest, "by"> = {}): Promise<boolean> {
    const { store } = this.#deps;
    const stop = new RunStop("cancelled", reason, { by });
    const execution = this.#running.get(runId);
    if (!execution) {
      this.#pendingCancellations.add(runId, stop);
      const { cancelled, isStopping } = await store.write(async (tx) => {
        const cancelled = await this.#queue.cancelQueued(tx, runId, reason);
        return {
          cancelled,
          isStopping: !cancelled && (await requestStopOf(tx, store, runId, { reason, by })),
        };
      });
      if (cancelled) await this.#stopWaiting(cancelled.session_id);
      return cancelled !== undefined || isStopping;
    }
    await execution.stop(stop);
    return true;
  }

  /**
   * Refuses new prompts and waits for the running runs; those still running after `graceMs` are cut and end as
   * interrupted. Queued runs stay queued for the next process, and detached runs that wait for approval stay waiting.
   */
  async drain(graceMs: number): Promise<void> {
    this.#draining = true;
    this.#startWaiting();
    const onCut = () => this.alive.cut();
    await drainRuns(this.#executions, this.#deps, { graceMs, settled: this.#settled(), onCut });
  }

  /**
   * Starts the next queued run of a session whose lease this process holds, as soon as the limits allow it, or releases
   * the lease.
   */
  async continueSession(sessionId: string): Promise<void> {
    const slot = await this.#queue.slotOfNext(sessionId, RECOVERED);
    if (slot && !this.#limit.hasFreeSlot(slot)) return this.#wait(sessionId, slot);
    await this.#continue(sessionId, this.#limit.acquire(slot));
  }

  /** Resumes a run that another process left waiting, in a session whose lease this process holds. */
  async resume(run: RunRow, session: SessionRow): Promise<void> {
    const { store } = this.#deps;
    const left = await store.write(async (tx) => {
      const left = this.#draining ? undefined : await suspended(tx, run);
      await (left ? this.#queue.resume(tx, run) : this.#queue.park(tx, session.id));
      return left;
    });
    if (left) this.#execute({ run, session, input: parseInput(run) }, { suspended: left });
  }

  /** Leaves a session to the next recovery round of any process, this one included. */
  async letGo(sessionId: string): Promise<void> {
    await this.#deps.store.write((tx) => this.#queue.park(tx, sessionId));
  }

  async #settled(): Promise<void> {
    while (this.#open.size > 0) await Promise.allSettled(this.#open.values());
  }

  /** Makes a drain wait for `work`. */
  #track<T>(work: Promise<T>): Promise<T> {
    const number = ++this.#lastOpen;
    const tracked = work.finally(() => this.#open.delete(number));
    this.#open.set(number, tracked);
    return tracked;
  }

  #refuse(): never {
    throw new ServiceError("server_draining", "The server is shutting down. Try again in a moment.", {
      retryAfterSeconds: 1,
    });
  }

  /** Starts waiting runs as far as the limits allow; while draining it leaves them to the next process. */
  #startWaiting(): void {
    const left = this.#draining ? this.#limit.takeAll() : [];
    for (const sessionId of left) void this.#track(this.#continueWaiting(sessionId, uncounted));
    for (let ready = this.#limit.next(); ready; ready = this.#limit.next()) {
      void this.#track(this.#continueWaiting(ready.sessionId, ready.permit));
    }
  }

  /** Leaves a run that cannot be started to recovery, which tries again. Never rejects. */
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
    const permit = new PermitOnDemand(() => (isCounted ? this.#limit.admit(prompt.input.slot) : uncounted));
    const { id, name, key } = prompt.address;
    // A run in a new session certainly starts: it is refused before any database query.
    if ((id ?? name ?? key) === undefined) permit.take();
    try {
      return await this.#submit(prompt, permit);
    } catch (error) {
      permit.release();
      throw error;
    }
  }

  async #submit(prompt: Prompt, permit: PermitOnDemand): Promise<Submitted> {
    await this.#budgets.refresh({ owner: prompt.address.owner, key: prompt.apiKey ?? null });
    const text = busyModeOf(prompt, this.#deps) === "steer" ? steerableText(prompt) : undefined;
    const work = { deps: this.#deps, queue: this.#queue };
    // Tries again when the session became busy between the two attempts.
    for (let steersFirst = text !== undefined; ; steersFirst = false) {
      const steered = text === undefined ? undefined : await this.#steerInto(prompt, text);
      if (steered) return steered;
      const recorded = await recordPrompt(work, { prompt, permit, steersFirst });
      if (recorded) return this.#begin(recorded, prompt, permit);
    }
  }

  /** Undefined when no running turn accepts the text: the prompt then gets its own run. */
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

  /** Stops a run here that is already `stopping` in the store; another process learns it from the store. */
  #interrupt(runId: string): void {
    const stop = new RunStop("cancelled", INTERRUPTED);
    const execution = this.#running.get(runId);
    if (execution) void this.#track(this.#stopEarly(execution, stop));
    else this.#pendingCancellations.add(runId, stop);
  }

  /** Takes a session without queued runs off the waiting list. */
  async #stopWaiting(sessionId: string): Promise<void> {
    if (!this.#limit.isWaiting(sessionId) || !(await this.#queue.isEmpty(sessionId))) return;
    if (this.#limit.forget(sessionId)) await this.continueSession(sessionId);
  }

  /** Adds a leased session to the waiting list, and checks again: a permit may be free by now, or a drain begun. */
  #wait(sessionId: string, slot: RunSlot): void {
    this.#limit.wait(sessionId, slot);
    this.#startWaiting();
  }

  #execute(
    { run, session, input }: Started,
    how: { readonly fresh?: boolean; readonly suspended?: Suspended; readonly permit?: Permit } = {},
  ): void {
    const { fresh = false, suspended } = how;
    const started: Started = { run: withoutPrompt(run, input), session, input };
    const isCounted = started.run.kind !== "subagent";
    const permit = how.permit ?? (isCounted ? this.#limit.acquire(started.input.slot) : uncounted);
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
    for (const notify of this.#onStart) notify(started.run);
    const stop = this.#pendingCancellations.of(started.run.id);
    if (stop) void this.#track(this.#stopEarly(execution, stop));
    void this.#track(this.#conclude(execution, started).finally(permit.release));
  }

  async #stopEarly(execution: Execution, stop: RunStop): Promise<void> {
    try {
      await execution.stop(stop);
    } catch (error) {
      // The run still ends; only its status `stopping` is lost.
      this.#deps.log.warn("the stop of a run could not be recorded", { run: execution.runId, error });
    }
  }

  async #conclude(execution: Execution, { run, session, input }: Started): Promise<void> {
    const isStateless = session.transient === 1;
    const deps = this.#deps;
    const successor = this.#queue.successor(session.id, { hold: () => this.#draining });
    try {
      const next = await execution.run({
        follow: (tx, outcome) => followEnd(tx, { run, source: session.source, isStateless, deps }, outcome),
        next: successor.next,
        ended: successor.begun,
        attempts: (write) => this.alive.end(run.id, write),
      });
      this.#running.delete(run.id);
      if (execution.isParked) return await deps.store.write((tx) => this.#queue.park(tx, session.id));
      if (!isStateless) this.#onEnd?.(run, input.prompt);
      if (next) this.#execute(next);
    } catch (error) {
      // The session is not alive from here on. Its lease expires, and recovery closes the run.
      deps.log.error("the end of a run could not be recorded", { run: run.id, error });
    } finally {
      this.#running.delete(run.id);
      this.#budgets.close(run.id);
    }
  }
}

const MAX_CANCELLATIONS = 1_000;

/**
 * Stops of runs that were still queued: a run that starts before its stop is written ends at once. Keeps the last 1,000;
 * for older ones only the store decides.
 */
class PendingCancellations {
  readonly #stops = new Map<string, RunStop>();

  add(runId: string, stop: RunStop): void {
    this.#stops.set(runId, stop);
    const [oldest] = this.#stops.size > MAX_CANCELLATIONS ? this.#stops.keys() : [];
    if (oldest !== undefined) this.#stops.delete(oldest);
  }

  of(runId: string): RunStop | undefined {
    return this.#stops.get(runId);
  }
}
