import { ServiceError } from "../base/errors.ts";
import { createId } from "../base/ids.ts";
import type { RunRow, SessionRow } from "../store/tables.ts";
import type { ModelRef } from "./engine.ts";
import { Execution } from "./execution.ts";
import { Lane, type Started } from "./lane.ts";
import { formatModel } from "./model.ts";
import type { AgentParts, BusyMode } from "./parts.ts";
import { endRun, newRun, type RunInput, type RunKind } from "./run.ts";
import { findSession, newSession, type SessionAddress, type SessionSeed } from "./session.ts";
import { RunStop } from "./stop.ts";

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
  /** Called with the id of a new run before anything of it is committed: follow it from its first event. */
  readonly beforeStart?: (runId: string) => void;
}

export interface Submitted {
  readonly runId: string;
  readonly sessionId: string;
  readonly sessionKey: string | null;
  /** Effective `provider:model`. */
  readonly model: string;
  /** steered: the text went into the run that is at work, `runId`. */
  readonly status: "running" | "queued" | "steered";
}

/**
 * The turn queue: in each session one turn at a time, whoever asks and from whatever process, by the session's lease.
 * A prompt is recorded, with its run, before `submit` resolves; from then on it is never lost.
 */
export class Turns {
  readonly #parts: AgentParts;
  readonly #lane: Lane;
  readonly #running = new Map<string, Execution>();
  /** Prompts being recorded and turns at work. */
  readonly #open = new Set<Promise<unknown>>();
  #starting = 0;
  #draining = false;

  constructor(parts: AgentParts) {
    this.#parts = parts;
    this.#lane = new Lane(parts.store);
  }

  /** Runs at work in this process. */
  get running(): number {
    return this.#running.size;
  }

  get draining(): boolean {
    return this.#draining;
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
    if (!execution) return this.#parts.store.write((tx) => this.#lane.cancelQueued(tx, runId, reason));
    await execution.stop(new RunStop("cancelled", reason));
    return true;
  }

  /**
   * Takes no more prompts and waits for the running turns; those still at work after `graceMs` are cut and end as
   * interrupted. Queued runs stay queued for the next start.
   */
  async drain(graceMs: number): Promise<void> {
    this.#draining = true;
    const grace = new AbortController();
    const patience = this.#parts.clock.sleep(graceMs, { signal: grace.signal }).catch(() => {});
    const settled = this.#settled();
    await Promise.race([settled, patience]);
    for (const execution of this.#running.values()) {
      await execution.stop(new RunStop("shutdown", "The server was shut down while the run was at work."));
    }
    await settled;
    grace.abort();
  }

  /** Starts the next queued run of a session whose lease this process holds, or gives the lease back. */
  async continueSession(sessionId: string): Promise<void> {
    const next = await this.#parts.store.write((tx) =>
      this.#lane.next(tx, sessionId, { hold: this.#draining }),
    );
    if (next) this.#execute(next, false);
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

  async #take(prompt: Prompt): Promise<Submitted> {
    const found = await findSession(this.#parts.store, prompt.address);
    return (found && this.#steerInto(found, prompt)) ?? (await this.#record(prompt, found));
  }

  /** Undefined when steering is not asked for, or no turn of this process can take it: then it is a prompt like any. */
  #steerInto(session: SessionRow, prompt: Prompt): Submitted | undefined {
    if ((prompt.whenBusy ?? this.#parts.settings.whenBusy) !== "steer") return undefined;
    const execution = [...this.#running.values()].find((running) => running.sessionId === session.id);
    const texts = prompt.input.prompt.map((message) => (message.role === "user" ? message.text : ""));
    const text = texts.filter((part) => part !== "").join("\n\n");
    if (!execution?.steer(text)) return undefined;
    const { runId, model } = execution;
    return { runId, sessionId: session.id, sessionKey: session.session_key, model, status: "steered" };
  }

  async #record(prompt: Prompt, found: SessionRow | undefined): Promise<Submitted> {
    const { store, clock } = this.#parts;
    const runId = createId("run", clock.now());
    const made = newSession(prompt.address, prompt.seed, clock.now());
    prompt.beforeStart?.(runId);
    const { run, session, input, isNew, leased } = await store.write(async (tx) => {
      const existing = found ?? (await this.#lane.existing(tx, made));
      const session = existing ?? made;
      const input = inputOf(prompt, !existing);
      const { kind, metadata = {} } = prompt;
      const model = this.#modelFor(prompt, session);
      const run = newRun(runId, session, { kind, model, input, metadata, nowMs: tx.nowMs });
      if (!existing) {
        await this.#lane.open(tx, { session, run, input });
        return { run, session, input, isNew: true, leased: true };
      }
      await this.#lane.keep(tx, session);
      const leased = await this.#lane.lease(tx, session.id);
      if (leased) await this.#lane.begin(tx, run, input);
      else await this.#lane.enqueue(tx, run, this.#queueLimit(prompt));
      return { run, session, input, isNew: false, leased };
    });
    if (leased) this.#execute({ run, session, input }, isNew);
    return {
      runId,
      sessionId: session.id,
      sessionKey: session.session_key,
      model: run.model,
      status: leased ? "running" : "queued",
    };
  }

  /** ServiceError `session_busy` where prompts to a busy session are to be refused. */
  #queueLimit(prompt: Prompt): number {
    const { settings } = this.#parts;
    if ((prompt.whenBusy ?? settings.whenBusy) !== "reject") return settings.maxQueuePerSession;
    throw new ServiceError(
      "session_busy",
      "The session is at work (session busy). Wait for its run to end.",
      { retryAfterSeconds: 1 },
    );
  }

  #modelFor(prompt: Prompt, session: SessionRow): string {
    const { models } = this.#parts;
    const own = session.model === null ? undefined : models.resolve(session.model);
    return formatModel(prompt.model ?? own ?? models.default);
  }

  #execute(started: Started, fresh: boolean): void {
    const execution = new Execution({ parts: this.#parts, ...started, fresh });
    this.#running.set(started.run.id, execution);
    void this.#track(this.#conclude(execution, started.run));
  }

  async #conclude(execution: Execution, run: RunRow): Promise<void> {
    try {
      const next = await execution.run({
        end: (tx, { status, set }) => endRun(tx, run.id, status, set),
        next: (tx) => this.#lane.next(tx, run.session_id, { hold: this.#draining }),
      });
      this.#running.delete(run.id);
      if (next) this.#execute(next, false);
    } catch (error) {
      // The end could not be written. The lease runs out and recovery closes the run as interrupted.
      this.#parts.log.error("the end of a run could not be recorded", { run: run.id, error });
      this.#running.delete(run.id);
    }
  }
}

function inputOf({ input: { opening = [], ...input } }: Prompt, isNew: boolean): RunInput {
  return isNew ? { ...input, prompt: [...opening, ...input.prompt] } : input;
}
