import type { SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import type { RunUsage } from "../../../generated/http/client/types.gen.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { merged } from "./chunks.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { TurnQuestions } from "../questions/questions.ts";
import type { AcpDeps } from "../deps.ts";
import type { AcpSession } from "../session/session.ts";
import { ToolCalls } from "../tools/tool-calls.ts";
import type { AcpTurn } from "./turn.ts";
import { toUpdates } from "./update.ts";
import { sessionUsage, turnUsage } from "./usage.ts";

export interface TurnReporterOptions {
  readonly connection: AcpConnection;
  readonly deps: AcpDeps;
  readonly session: AcpSession;
  readonly turn: AcpTurn;
}

/** Usage is told at most so often on the way. */
const USAGE_EVERY_MS = 500;

const ASKING = /^(?:approval|clarify|sudo|secret)\.(request|responded|expired)$/;

/**
 * Tells the client of one turn, from the events of its run: updates in their order, questions behind the updates of what
 * they are about. Once the turn is cancelled, or {@link end} was called, nothing more is sent.
 */
export class TurnReporter {
  readonly #options: TurnReporterOptions;
  readonly #calls: ToolCalls;
  readonly #questions: TurnQuestions;
  #usage: RunUsage | undefined;
  #usageToldMs = Number.NEGATIVE_INFINITY;
  #isOver = false;

  constructor(options: TurnReporterOptions) {
    this.#options = options;
    const { connection, deps, session, turn } = options;
    this.#calls = new ToolCalls({
      offers: connection.offers,
      cwd: session.seed.cwd,
      clock: deps.clock,
      send: (update) => this.#send(update),
    });
    const callOf = (toolCallId: string) => this.#calls.find(toolCallId);
    this.#questions = new TurnQuestions({ connection, session, turn, callOf });
  }

  /** Resolves when what there was to tell is on its way: a slow client slows its own turn's events down, nothing else. */
  async tell(events: readonly JournalEvent[]): Promise<void> {
    for (const event of merged(events)) {
      if (this.#isOver || this.#options.turn.signal.aborted || this.#isUnseen) return;
      await this.#take(event);
    }
  }

  /** The turn is over: what is open is closed. Nothing is sent once this has resolved. */
  async end(): Promise<void> {
    if (this.#isOver) return;
    this.#questions.close();
    if (!this.#isUnseen) await this.#calls.abandon();
    if (!this.#options.turn.signal.aborted && !this.#isUnseen) await this.#sendUsage();
    this.#isOver = true;
    this.#calls.stop();
  }

  /** The client closed the session, and the turn is not its own: its own it cancels, and hears the end of it. */
  get #isUnseen(): boolean {
    const { session, turn } = this.#options;
    return session.signal.aborted && !turn.signal.aborted;
  }

  async #take(event: JournalEvent): Promise<void> {
    await this.#calls.take(event);
    for (const update of toUpdates(event, this.#options.connection.offers)) await this.#send(update);
    if (event.type === "usage.updated") await this.#onUsage(event.data["usage"] as RunUsage);
    const asking = ASKING.exec(event.type)?.[1];
    if (asking === "request") this.#questions.put(event);
    else if (asking !== undefined) this.#questions.settled(event);
  }

  async #onUsage(usage: RunUsage): Promise<void> {
    const before = this.#usage;
    this.#usage = usage;
    const { deps, session } = this.#options;
    const nowMs = deps.clock.now();
    if (nowMs - this.#usageToldMs < USAGE_EVERY_MS) return;
    const row = await deps.store.find("sessions", { id: session.id });
    const { models } = deps.agent.deps;
    const own = row?.model == null ? undefined : models.resolve(row.model);
    const update = turnUsage(usage, before, models.contextTokensOf(own ?? models.default));
    if (!update) return;
    this.#usageToldMs = nowMs;
    await this.#send(update);
  }

  async #sendUsage(): Promise<void> {
    const { deps, session } = this.#options;
    const update = await sessionUsage(deps, session.id);
    if (update) await this.#send(update);
  }

  /** A client that is gone hears nothing; its turn ends by its own signal. */
  async #send(update: SessionUpdate): Promise<void> {
    if (this.#isOver) return;
    const { connection, session } = this.#options;
    await connection.client.notify("session/update", { sessionId: session.id, update }).catch(() => {});
  }
}
