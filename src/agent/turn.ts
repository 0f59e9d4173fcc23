import { ServiceError } from "../base/errors.ts";
import type { RunRow, SessionRow } from "../store/tables.ts";
import { AliveSessions } from "./alive-sessions.ts";
import { Budgets } from "./budgets.ts";
import type { ChildPrompt } from "./delegation.ts";
import { drainRuns } from "./drain.ts";
import { EarlyStops } from "./early-stops.ts";
import { Execution } from "./execution.ts";
import { Lane, type Started } from "./lane.ts";
import type { AgentParts } from "./parts.ts";
import type { Prompt, Submitted } from "./prompt.ts";
import { recordPrompt } from "./record-prompt.ts";
import { requestStopOf, steerElsewhere } from "./run-control.ts";
import { suspended, type Suspended } from "./resume.ts";
import { concludeRun } from "./run-end.ts";
import { parseInput } from "./run.ts";
import { findSession, settingsOf } from "./session.ts";
import { StartGate, uncounted, type Entry, type RunSlot } from "./start-gate.ts";
import { RunStop } from "./stop.ts";

/** Of runs that nobody waits at the wire for any more, as the process that recorded them is gone. */
const RECOVERED: RunSlot = { group: "recovered" };

/**
 * The turn queue: in each session one turn at a time, whoever asks and from whatever process, by the session's lease.
 * A prompt is recorded, with its run, before `submit` resolves; from then on it is never lost.
 */
export class Turns {
  readonly #parts: AgentParts;
  readonly #lane: Lane;
  readonly #budgets: Budgets;
  readonly #gate: StartGate;
  readonly #onEnd: ((run: RunRow) => void) | undefined;
  readonly #running = new Map<string, Execution>();
  /** Prompts being recorded and turns at work. */
  readonly #open = new Set<Promise<unknown>>();
  readonly #earlyStops = new EarlyStops();
  readonly alive: AliveSessions;
  #draining = false;

  /** `onEnd` is told of each run of a kept session that ended in this process, after its end is committed. It MUST NOT throw. */
  constructor(parts: AgentParts, options: { readonly onEnd?: (run: RunRow) => void } = {}) {
    this.#parts = parts;
    this.#lane = new Lane(parts);
    this.#budgets = new Budgets(parts);
    this.#gate = new StartGate({ max: parts.settings.maxConcurrentRuns, onRoom: () => this.#startWaiting() });
    this.#onEnd = options.onEnd;
    this.alive = new AliveSessions({ parts, running: this.#running, waiting: () => this.#gate.sessions });
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
   * is no room for it yet.
   *
   * ServiceError `server_draining`, `too_many_concurrent_runs`, `session_not_found` (another owner's),
   * `session_busy` (mode reject), `queue_full`.
   */
  async submit(prompt: Prompt): Promise<Submitted> {
    if (this.#draining) this.#refuse();
    const entry = this.#gate.admit(prompt.input.slot);
    return this.#track(this.#take(prompt, entry));
  }

  /**
   * Starts a sub-agent, in a session of its own that goes with it. Not counted against the limit of runs: the run that
   * waits for it is.
   */
  async spawn(child: ChildPrompt): Promise<Submitted> {
    if (this.#draining) this.#refuse();
    const { owner, cwd, parent, input } = child;
    const { todos: _, ...settings } = settingsOf(parent);
    const model = this.#parts.models.resolve(child.model);
    const prompt: Prompt = {
      address: { owner },
      seed: { source: "subagent", parentId: parent.id, settings, ...(cwd === null ? {} : { cwd }) },
      kind: "subagent",
      runId: child.runId,
      input,
      ...(model ? { model } : {}),
    };
    return this.#track(this.#take(prompt, uncounted));
  }

  /** The run at work in a session, if it is at work in this process. */
  runningIn(sessionId: string): string | undefined {
    return this.#executionIn(sessionId)?.runId;
  }

  /**
   * Gives text to a running turn, whatever process it runs in. False when it is not running (any more). Once this
   * resolves with true the text is safe: the model gets it at its next step, or the final event hands it back.
   */
  async steer(runId: string, text: string): Promise<boolean> {
    const here = this.#running.get(runId);
    return here ? here.steer(text) : steerElsewhere(this.#parts, runId, text);
  }

  /**
   * Asks a run to stop, whatever process it runs in. A queued run is cancelled at once; a running one goes through
   * `stopping`. False when it has ended.
   */
  async stop(runId: string, reason: string): Promise<boolean> {
    const { store } = this.#parts;
    const stop = new RunStop("cancelled", reason);
    const execution = this.#running.get(runId);
    if (!execution) {
      this.#earlyStops.note(runId, stop);
      return store.write(
        async (tx) =>
          (await this.#lane.cancelQueued(tx, runId, reason)) || requestStopOf(tx, store, runId, reason),
      );
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
    await drainRuns(this.#executions, this.#parts, { graceMs, settled: this.#settled(), onCut });
  }

  /**
   * Starts the next queued run of a session whose lease this process holds, once there is room for it, or gives the lease
   * back.
   */
  async continueSession(sessionId: string): Promise<void> {
    const slot = (await this.#lane.slotOfNext(sessionId)) ?? RECOVERED;
    if (!this.#gate.hasRoom(slot)) return this.#wait(sessionId, slot);
    await this.#continue(sessionId, this.#gate.enter(slot));
  }

  /** Takes a run up that another process left waiting, in a session whose lease this process holds. */
  async resume(run: RunRow, session: SessionRow): Promise<void> {
    const { store } = this.#parts;
    const left = await store.write(async (tx) => {
      const left = this.#draining ? undefined : await suspended(tx, run);
      await (left ? this.#lane.resume(tx, run) : this.#lane.park(tx, session.id));
      return left;
    });
    if (left) this.#execute({ run, session, input: parseInput(run) }, { suspended: left });
  }

  /** Leaves a session to whoever looks after sessions next, this process included. */
  async letGo(sessionId: string): Promise<void> {
    await this.#parts.store.write((tx) => this.#lane.park(tx, sessionId));
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
      void this.#track(this.#continueWaiting(ready.sessionId, ready.entry));
    }
  }

  /** What cannot be started is left to recovery, which looks for it again and again. Never rejects. */
  async #continueWaiting(sessionId: string, entry: Entry): Promise<void> {
    try {
      await this.#continue(sessionId, entry);
    } catch (error) {
      this.#parts.log.error("a run that waited could not be started yet", { session: sessionId, error });
      await this.letGo(sessionId).catch(() => {});
    }
  }

  async #continue(sessionId: string, entry: Entry): Promise<void> {
    const { store } = this.#parts;
    const successor = this.#lane.successor(sessionId, { hold: () => this.#draining });
    let next: Started | undefined;
    try {
      next = await this.alive.start(sessionId, () => store.write(successor.next));
    } finally {
      if (!next) entry.leave();
    }
    if (next) this.#execute(next, { entry });
  }

  async #take(prompt: Prompt, entry: Entry): Promise<Submitted> {
    try {
      return await this.#admitted(prompt, entry);
    } catch (error) {
      entry.leave();
      throw error;
    }
  }

  async #admitted(prompt: Prompt, entry: Entry): Promise<Submitted> {
    const found = await findSession(this.#parts.store, prompt.address);
    await this.#budgets.refresh(prompt.address.owner);
    const whenBusy = prompt.whenBusy ?? this.#parts.settings.whenBusy;
    if (found && whenBusy === "steer") {
      const steered = await this.#steerInto(found, prompt);
      if (steered) {
        entry.leave();
        return steered;
      }
    }
    const submitted = await this.#record(prompt, found, entry);
    if (submitted.status === "queued" && whenBusy === "interrupt") {
      await this.#executionIn(submitted.sessionId)?.stop(
        new RunStop("cancelled", "A newer prompt took over."),
      );
    }
    return submitted;
  }

  /** Undefined when no turn of this process can take the text: then it is a prompt like any. */
  async #steerInto(session: SessionRow, prompt: Prompt): Promise<Submitted | undefined> {
    const { prompt: messages } = prompt.input;
    // What is recorded with a run, and what rides with a prompt, cannot be steered in.
    if (prompt.alsoRecord) return undefined;
    if (messages.some((message) => message.role === "user" && message.attachments?.length)) return undefined;
    const execution = this.#executionIn(session.id);
    const texts = messages.map((message) => (message.role === "user" ? message.text : ""));
    const text = texts.filter((part) => part !== "").join("\n\n");
    if (text === "" || !(await execution?.steer(text)) || !execution) return undefined;
    const { runId, model } = execution;
    const createdAtMs = this.#parts.clock.now();
    const { id: sessionId, session_key: sessionKey } = session;
    return { runId, sessionId, sessionKey, model, status: "steered", createdAtMs };
  }

  #executionIn(sessionId: string): Execution | undefined {
    return [...this.#running.values()].find((running) => running.sessionId === sessionId);
  }

  async #record(prompt: Prompt, found: SessionRow | undefined, entry: Entry): Promise<Submitted> {
    const work = { parts: this.#parts, lane: this.#lane };
    const recorded = await recordPrompt(work, { prompt, found, waits: entry.waits });
    const { run, session, isNew, isLeased, position } = recorded;
    if (position === 0) this.#execute(recorded, { fresh: isNew, entry });
    else if (isLeased && prompt.input.slot) this.#wait(session.id, prompt.input.slot);
    else entry.leave();
    return {
      runId: run.id,
      sessionId: session.id,
      sessionKey: session.session_key,
      model: run.model,
      createdAtMs: run.created_at,
      ...(position === 0 ? { status: "running" } : { status: "queued", queuePosition: position }),
    };
  }

  /** For a run with its session's lease. Room made meanwhile, or a drain begun, did not find it: they are looked at. */
  #wait(sessionId: string, slot: RunSlot): void {
    this.#gate.wait(sessionId, slot);
    this.#startWaiting();
  }

  #execute(
    started: Started,
    how: { readonly fresh?: boolean; readonly suspended?: Suspended; readonly entry?: Entry } = {},
  ): void {
    const { fresh = false, suspended } = how;
    const isCounted = started.run.kind !== "subagent";
    const entry = how.entry ?? (isCounted ? this.#gate.enter(started.input.slot) : uncounted);
    const budget = this.#budgets.open(started.run, started.input);
    const execution = new Execution({
      parts: this.#parts,
      ...started,
      budget,
      spawner: this,
      fresh,
      suspended,
    });
    this.#running.set(started.run.id, execution);
    const stop = this.#earlyStops.of(started.run.id);
    if (stop) void this.#track(this.#stopEarly(execution, stop));
    void this.#track(this.#conclude(execution, started).finally(entry.leave));
  }

  async #stopEarly(execution: Execution, stop: RunStop): Promise<void> {
    try {
      await execution.stop(stop);
    } catch (error) {
      // It ends all the same; only that it was stopping could not be told.
      this.#parts.log.warn("the stop of a run could not be recorded", { run: execution.runId, error });
    }
  }

  async #conclude(execution: Execution, { run, session }: Started): Promise<void> {
    const isStateless = session.transient === 1;
    const parts = this.#parts;
    const successor = this.#lane.successor(session.id, { hold: () => this.#draining });
    try {
      const next = await execution.run({
        end: (tx, outcome) => concludeRun(tx, { run, isStateless, parts }, outcome),
        next: successor.next,
        ended: successor.begun,
        attempts: (write) => this.alive.end(run.id, write),
      });
      this.#running.delete(run.id);
      if (execution.isParked) return await parts.store.write((tx) => this.#lane.park(tx, session.id));
      if (!isStateless) this.#onEnd?.(run);
      if (next) this.#execute(next);
    } catch (error) {
      // Nothing is alive in the session from here on. Its lease runs out, and recovery closes the run.
      parts.log.error("the end of a run could not be recorded", { run: run.id, error });
    } finally {
      this.#running.delete(run.id);
      this.#budgets.close(run.id);
    }
  }
}
