import type { SessionUpdate, Cost } from "@agentclientprotocol/sdk/unstable";
import type { RunUsage, Todo } from "../../../generated/http/client/types.gen.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import type { AcpConnection, AcpSession, AcpTurn, ClientFeatures } from "../wire/connection.ts";
import { TurnQuestions } from "../questions/questions.ts";
import type { AcpDeps } from "../deps.ts";
import { ToolCalls } from "../tools/calls.ts";
import { noticeUpdate } from "../wire/updates.ts";

interface TurnReporterOptions {
  readonly connection: AcpConnection;
  readonly deps: AcpDeps;
  readonly session: AcpSession;
  readonly turn: AcpTurn;
}

/** The shortest interval between usage updates within a turn. */
const USAGE_EVERY_MS = 500;

const QUESTION_EVENT = /^(?:approval|clarify|sudo|secret)\.(request|responded|expired)$/;

/**
 * Reports one turn to the client from the events of its run: updates in order, and questions after the updates they refer
 * to. Sends nothing after the turn is cancelled or {@link end} was called.
 */
export class TurnReporter {
  readonly #options: TurnReporterOptions;
  readonly #calls: ToolCalls;
  /** Created with the first question. */
  #questions: TurnQuestions | undefined;
  #usage: RunUsage | undefined;
  #usageSentMs = Number.NEGATIVE_INFINITY;
  #isOver = false;

  constructor(options: TurnReporterOptions) {
    this.#options = options;
    const { connection, deps, session } = options;
    this.#calls = new ToolCalls({
      features: connection.features,
      cwd: session.seed.cwd,
      clock: deps.clock,
      send: (update) => this.#send(update),
    });
  }

  /** Resolves when the updates are written: a slow client delays only the events of its own turn. */
  async report(events: readonly JournalEvent[]): Promise<void> {
    for (const event of mergeDeltas(events)) {
      if (this.#isOver || this.#options.turn.signal.aborted || this.#isDetached) return;
      await this.#take(event);
    }
  }

  /** Closes open calls and questions. Sends nothing after it resolves. */
  async end(): Promise<void> {
    if (this.#isOver) return;
    this.#questions?.close();
    if (!this.#isDetached) await this.#calls.abandon();
    if (!this.#options.turn.signal.aborted && !this.#isDetached) await this.#sendUsage();
    this.#isOver = true;
    this.#calls.stop();
  }

  /** The client closed the session while it followed the turn of another client. */
  get #isDetached(): boolean {
    const { session, turn } = this.#options;
    return session.signal.aborted && !turn.signal.aborted;
  }

  async #take(event: JournalEvent): Promise<void> {
    await this.#calls.take(event);
    for (const update of toUpdates(event, this.#options.connection.features)) await this.#send(update);
    if (event.type === "usage.updated") await this.#onUsage(event.data["usage"] as RunUsage);
    const question = QUESTION_EVENT.exec(event.type)?.[1];
    if (question === undefined) return;
    this.#questions ??= this.#createQuestions();
    if (question === "request") this.#questions.ask(event);
    else this.#questions.settled(event);
  }

  #createQuestions(): TurnQuestions {
    const { connection, session, turn } = this.#options;
    return new TurnQuestions({ connection, session, turn, callOf: (id) => this.#calls.find(id) });
  }

  async #onUsage(usage: RunUsage): Promise<void> {
    const before = this.#usage;
    this.#usage = usage;
    const { deps, session } = this.#options;
    const nowMs = deps.clock.now();
    if (nowMs - this.#usageSentMs < USAGE_EVERY_MS) return;
    const row = await deps.store.find("sessions", { id: session.id });
    const { models } = deps.agent.deps;
    const own = row?.model == null ? undefined : models.resolve(row.model);
    const update = turnUsage(usage, before, models.contextTokensOf(own ?? models.default));
    if (!update) return;
    this.#usageSentMs = nowMs;
    await this.#send(update);
  }

  async #sendUsage(): Promise<void> {
    const { deps, session } = this.#options;
    const update = await sessionUsage(deps, session.id);
    if (update) await this.#send(update);
  }

  /** Ignores failures: the turn of a disconnected client ends by its own signal. */
  async #send(update: SessionUpdate): Promise<void> {
    if (this.#isOver) return;
    const { connection, session } = this.#options;
    await connection.client.notify("session/update", { sessionId: session.id, update }).catch(() => {});
  }
}

/** The limit of a merged delta. */
const MAX_MERGED_BYTES = 2_048;

/**
 * Merges adjacent deltas of the same message. Only events that queued up behind a slow client are merged, so this adds no
 * delay.
 */
export function mergeDeltas(events: readonly JournalEvent[]): readonly JournalEvent[] {
  const all: JournalEvent[] = [];
  for (const event of events) {
    const last = all.at(-1);
    const merged = last && mergePair(last, event);
    if (merged) all[all.length - 1] = merged;
    else all.push(event);
  }
  return all;
}

function mergePair(last: JournalEvent, next: JournalEvent): JournalEvent | undefined {
  if (last.type !== next.type || last.runId !== next.runId) return undefined;
  if (next.type !== "message.delta" && next.type !== "reasoning.delta") return undefined;
  if (last.data["message_id"] !== next.data["message_id"]) return undefined;
  const text = `${String(last.data["delta"])}${String(next.data["delta"])}`;
  if (text.length > MAX_MERGED_BYTES || Buffer.byteLength(text) > MAX_MERGED_BYTES) return undefined;
  return { ...next, data: { ...next.data, delta: text } };
}

type Data = JournalEvent["data"];

/** Returns the updates for an event of a run, except those of tool calls. */
export function toUpdates(
  { type, runId, seq, data }: Pick<JournalEvent, "type" | "runId" | "seq" | "data">,
  features: Pick<ClientFeatures, "notices" | "compaction">,
): readonly SessionUpdate[] {
  switch (type) {
    case "message.delta":
      return [{ sessionUpdate: "agent_message_chunk", ...chunk(data) }];
    case "reasoning.delta":
      return [{ sessionUpdate: "agent_thought_chunk", ...chunk(data) }];
    case "tool.completed":
      return data["todos"] === undefined ? [] : [planOf(data["todos"] as readonly Todo[])];
    case "run.notice":
      return [noticeUpdate(features, { id: `${runId ?? ""}:${seq}`, text: String(data["message"]) })];
    case "compression.started":
    case "compression.completed":
      return compaction(type, `${runId ?? ""}:compaction`, { data, features });
    default:
      return [];
  }
}

/** Returns the whole todo list as a plan, without cancelled entries. */
export function planOf(todos: readonly Todo[]): SessionUpdate {
  const entries = todos.flatMap(({ content, status }) =>
    status === "cancelled" ? [] : [{ content, status, priority: "medium" as const }],
  );
  return { sessionUpdate: "plan", entries };
}

function chunk({ message_id: messageId, delta }: Data): {
  readonly messageId?: string;
  readonly content: { readonly type: "text"; readonly text: string };
} {
  const content = { type: "text", text: String(delta) } as const;
  return typeof messageId === "string" ? { messageId, content } : { content };
}

/** A run has at most one active compaction, so all compactions of a run share an id. */
function compaction(
  type: string,
  compactionId: string,
  {
    data,
    features,
  }: { readonly data: Data; readonly features: Pick<ClientFeatures, "notices" | "compaction"> },
): readonly SessionUpdate[] {
  const { status, note, before_tokens: before, after_tokens: after } = data;
  const isOver = type === "compression.completed";
  if (features.compaction) {
    const reached = !isOver ? "in_progress" : status === "failed" ? "failed" : "completed";
    const error = reached === "failed" ? { error: String(note ?? "The conversation is unchanged.") } : {};
    return [{ sessionUpdate: "compaction_update", compactionId, status: reached, ...error }];
  }
  if (!features.notices) return [];
  const notice = (text: string) => [noticeUpdate(features, { id: compactionId, text, severity: "info" })];
  if (!isOver) return notice("Compressing the conversation.");
  if (status !== "compressed")
    return notice(`The conversation was not compressed. ${String(note ?? "")}`.trim());
  return notice(`Compressed the conversation from about ${before} to ${after} tokens.`);
}

/** Sends the context usage of a session, if it has any. */
export async function sendUsage(connection: AcpConnection, session: AcpSession): Promise<void> {
  const update = await sessionUsage(await connection.deps(), session.id);
  if (update) await connection.client.notify("session/update", { sessionId: session.id, update });
}

/** Returns the context usage of a session, or undefined before its first turn. */
async function sessionUsage(deps: AcpDeps, sessionId: string): Promise<SessionUpdate | undefined> {
  const row = await deps.store.find("sessions", { id: sessionId });
  if (!row) return undefined;
  const { agent } = deps;
  const { models } = agent.deps;
  const { used } = await agent.contextUse(row);
  const own = row.model === null ? undefined : models.resolve(row.model);
  const size = models.contextTokensOf(own ?? models.default);
  if (used === 0) return undefined;
  return { sessionUpdate: "usage_update", used, size, ...costOf(agent.sessions.usage(row)?.cost_usd) };
}

/** Returns the context usage within a turn: the tokens of the last model call are the input of the next one. */
function turnUsage(usage: RunUsage, before: RunUsage | undefined, size: number): SessionUpdate | undefined {
  const calls = usage.model_calls - (before?.model_calls ?? 0);
  const used = usage.total_tokens - (before?.total_tokens ?? 0);
  // The sum of several calls says nothing about one.
  return calls === 1 && used > 0 ? { sessionUpdate: "usage_update", used, size } : undefined;
}

/** Returns the cost of all turns so far, if the prices are known. */
function costOf(amount: number | null | undefined): { readonly cost?: Cost } {
  return typeof amount === "number" ? { cost: { amount, currency: "USD" } } : {};
}
