import type { RunUsage } from "../../generated/http/client/types.gen.ts";
import { ServiceError } from "../base/errors.ts";
import type { SessionRow } from "../store/schema/tables.ts";
import { followRun, findRun, isFinalStatus, type RunView } from "./run/run.ts";
import { resetContext } from "./session/transcript.ts";
import { LiveSessions } from "./session/live-sessions.ts";
import { type SessionMode, settingsOf } from "./session/session.ts";
import { formatModel } from "./model.ts";
import type { AgentDeps } from "./deps.ts";
import type { Submitted } from "./run/prompt.ts";
import { Recovery } from "./recovery/recovery.ts";
import { Sessions } from "./session/sessions.ts";
import { Titles } from "./session/titles.ts";
import { RunScheduler } from "./run/scheduler.ts";

export const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh"] as const;

/** The status of a session. */
export interface SessionStatus {
  readonly session: SessionRow;
  /** The running run, if this process runs it. */
  readonly runId: string | undefined;
  readonly isBusy: boolean;
  /** Effective `provider:model`. */
  readonly model: string;
  readonly reasoningEffort: string | undefined;
  /** Approvals are off: for the session, for all sessions, or by the configuration. */
  readonly yolo: boolean;
  /** Undefined: the configuration decides. */
  readonly mode: SessionMode | undefined;
  readonly cwd: string;
  readonly queueLength: number;
  readonly openQuestions: number;
  readonly usage: RunUsage | undefined;
}

/** The result of a requested compression. */
export interface CompressionResult {
  readonly status: "compressed" | "noop" | "failed";
  readonly beforeMessages: number;
  readonly afterMessages: number;
  readonly beforeTokens: number;
  readonly afterTokens: number;
  readonly note?: string;
}

/** The agent that all surfaces use: its services, and the operations that need several of them. */
export class Agent {
  readonly deps: AgentDeps;
  readonly runs: RunScheduler;
  readonly sessions: Sessions;
  readonly live: LiveSessions;
  readonly titles: Titles;
  readonly #recovery: Recovery;

  constructor(deps: AgentDeps, options: { readonly maxLiveSessions: number }) {
    this.deps = deps;
    this.sessions = new Sessions(deps.store, (rows) => this.#recovery.settle(rows));
    this.titles = new Titles(deps, this.sessions);
    this.runs = new RunScheduler(deps, { onEnd: (run, prompt) => this.titles.consider(run, prompt) });
    this.live = new LiveSessions({ clock: deps.clock, max: options.maxLiveSessions });
    this.#recovery = new Recovery(deps, this.runs);
  }

  /**
   * Starts to renew this process's leases and, in the background, to close the runs of dead processes. Prompts to sessions
   * that are not recovered yet wait in their queues.
   */
  start(): void {
    this.#recovery.start();
  }

  /** Resolves when the runs that dead processes left open at {@link start} are closed, or the agent is stopped. */
  get recovered(): Promise<void> {
    return this.#recovery.recovered;
  }

  get isRecovered(): boolean {
    return this.#recovery.isRecovered;
  }

  /**
   * Closes the runs that dead processes left open in these sessions, before they are read, so that no dead run is shown as
   * running. {@link Sessions.saved} does the same for one session. False: all of them are alive, and earlier reads are
   * current. ServiceError `state_store_unavailable`.
   */
  async settle(sessionIds: readonly string[]): Promise<boolean> {
    if (sessionIds.length === 0) return false;
    const rows = await this.deps.store.read
      .selectFrom("sessions")
      .selectAll()
      .where("id", "in", sessionIds)
      .where("lease_owner", "is not", null)
      .execute();
    const isSettled = await this.#recovery.settle(rows);
    return isSettled || rows.length < sessionIds.length;
  }

  /** Returns a run of `owner`, after recovery if its process is dead. ServiceError `run_not_found`. */
  async findRun(runId: string, owner: string): Promise<RunView> {
    const { store } = this.deps;
    const run = await findRun(store, runId, owner);
    if (isFinalStatus(run.status) || this.runs.isAtWork(runId)) return run;
    // Recovery may have changed the run between the two reads: only a later read is current.
    await this.settle([run.session_id]);
    return findRun(store, runId, owner);
  }

  /** Stops the background work. Drain the runs first. */
  async stop(): Promise<void> {
    await this.titles.stop();
    await this.#recovery.stop();
  }

  /** Returns the status of a session. ServiceError `session_not_found`. */
  async status(sessionId: string, owner: string): Promise<SessionStatus> {
    const { deps } = this;
    const session = await this.sessions.get(sessionId, owner);
    const chosen = settingsOf(session);
    const own = session.model === null ? undefined : deps.models.resolve(session.model);
    const open = await deps.questions.open({ sessionId });
    return {
      session,
      runId: this.runs.runningIn(sessionId),
      isBusy: session.lease_owner !== null,
      model: formatModel(own ?? deps.models.default),
      reasoningEffort: chosen.reasoningEffort ?? deps.settings.reasoningEffort,
      yolo: chosen.yolo === true || deps.switches.yolo || deps.settings.policyMode === "yolo",
      mode: chosen.mode,
      cwd: session.cwd ?? deps.settings.workspace,
      queueLength: session.queued,
      openQuestions: open.length,
      usage: this.sessions.usage(session),
    };
  }

  /** Sets the model of a session from its next turn on. Resolves to its full name. ServiceError `model_not_found`. */
  async chooseModel(sessionId: string, owner: string, name: string): Promise<string> {
    const ref = this.deps.models.resolve(name);
    if (!ref) {
      const known = this.deps.models.providers.map((provider) => provider.name).join(", ");
      throw new ServiceError(
        "model_not_found",
        `There is no model ${JSON.stringify(name)}. Name it as provider:model; the providers are: ${known}.`,
        { param: "model" },
      );
    }
    const model = formatModel(ref);
    await this.sessions.choose(sessionId, owner, { model });
    return model;
  }

  /** Sets the reasoning effort of a session; null: the default. ServiceError `invalid_request` for an unknown effort. */
  async chooseEffort(sessionId: string, owner: string, effort: string | null): Promise<void> {
    if (effort !== null && !EFFORTS.some((known) => known === effort)) {
      throw new ServiceError("invalid_request", `reasoning_effort must be one of: ${EFFORTS.join(", ")}.`, {
        param: "reasoning_effort",
      });
    }
    await this.sessions.choose(sessionId, owner, { reasoningEffort: effort });
  }

  /**
   * Runs a prompt beside the session, in a new context with the session's model and directory. The session gets its end as
   * `background.complete`. Calls that require approval are denied, since no person watches the run.
   */
  async background(sessionId: string, owner: string, text: string): Promise<Submitted> {
    const session = await this.sessions.get(sessionId, owner);
    const model = session.model === null ? undefined : this.deps.models.resolve(session.model);
    return this.runs.submit({
      address: { owner },
      seed: {
        source: "background",
        parentId: sessionId,
        settings: settingsOf(session),
        ...(session.cwd === null ? {} : { cwd: session.cwd }),
      },
      kind: "background",
      input: {
        prompt: [{ role: "user", text }],
        settings: {},
        answerable: false,
        notifySessionId: sessionId,
      },
      ...(model ? { model } : {}),
    });
  }

  /**
   * Compresses an idle session, as a run of its own. ServiceError `session_busy`, `session_not_found`, and the error of a
   * failed run.
   */
  async compress(
    sessionId: string,
    owner: string,
    options: { readonly focus?: string; readonly signal?: AbortSignal } = {},
  ): Promise<CompressionResult> {
    await this.sessions.get(sessionId, owner);
    const { focus, signal } = options;
    const { runId } = await this.runs.submit({
      address: { owner, id: sessionId },
      seed: { source: "embed" },
      kind: "compression",
      whenBusy: "reject",
      input: { prompt: [], settings: {}, answerable: false, ...(focus === undefined ? {} : { focus }) },
    });
    const onAbort = () => void this.runs.stop(runId, "The compression was cancelled.");
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted) onAbort();
    try {
      return await this.#compressionOf(runId);
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  }

  /** Empties the model's context; the transcript stays. ServiceError `session_busy`. */
  async reset(sessionId: string, owner: string): Promise<void> {
    await this.sessions.get(sessionId, owner);
    await this.deps.store.write((tx) => resetContext(tx, sessionId));
  }

  async #compressionOf(runId: string): Promise<CompressionResult> {
    let result: CompressionResult | undefined;
    for await (const { type, data } of followRun(this.deps.store, runId)) {
      if (type === "compression.completed") result = toResult(data);
      if (type === "run.failed") {
        const { message } = data["error"] as { readonly message: string };
        throw new ServiceError("provider_error", message);
      }
    }
    return result ?? { status: "failed", ...NO_COUNTS, note: "The compression was stopped." };
  }
}

const NO_COUNTS = { beforeMessages: 0, afterMessages: 0, beforeTokens: 0, afterTokens: 0 };

function toResult(data: Readonly<Record<string, unknown>>): CompressionResult {
  return {
    status: data["status"] as CompressionResult["status"],
    beforeMessages: Number(data["before_messages"]),
    afterMessages: Number(data["after_messages"]),
    beforeTokens: Number(data["before_tokens"]),
    afterTokens: Number(data["after_tokens"]),
    ...(data["note"] === undefined ? {} : { note: String(data["note"]) }),
  };
}
