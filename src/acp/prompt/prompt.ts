import {
  RequestError,
  type PromptResponse,
  type StopReason,
  type Usage,
} from "@agentclientprotocol/sdk/unstable";
import { isFinalEvent } from "../../agent/run/run.ts";
import type { UserMessage } from "../../agent/engine.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { type AcpConnection, type AcpSession, AcpTurn } from "../wire/connection.ts";
import { requireModel } from "../session/options.ts";
import { sendNotice } from "../wire/updates.ts";
import { toMessage } from "./content.ts";
import type { AcpCall } from "../wire/contract.ts";
import { requireProvider, requireUndeleted } from "../session/open.ts";
import type { AcpDeps } from "../deps.ts";
import { dispatchCommand } from "./commands.ts";
import { TurnReporter } from "./turn-reporter.ts";
import type { Store } from "../../store/store.ts";
import { toRequestError, runFailed } from "../wire/error.ts";
import type { ProviderFailure, RunUsage } from "../../../generated/http/client/types.gen.ts";

/** How long a cancelled prompt waits for its run to stop, so that the next request finds it stopped. */
const CLEANUP_MS = 400;

/**
 * Runs a prompt and returns its stop reason. Prompts of a session run one after the other. RequestError if the turn fails;
 * a cancel prevails over every other result.
 */
export async function runPrompt(
  { params, signal, requestId }: AcpCall<"session/prompt">,
  connection: AcpConnection,
): Promise<PromptResponse> {
  const session = connection.session(params.sessionId);
  return inTurn(
    session,
    { signal, answered: (then) => connection.afterAnswer(requestId, then) },
    async (turn) => {
      const { signal: cancelled } = turn.turn;
      const deps = await requireProvider(connection);
      await requireUndeleted(connection, session, requestId);
      const blocks = params.prompt;
      const done = await dispatchCommand({ connection, session, blocks, signal: cancelled });
      if (done?.type === "answer") return done.response;
      const message = done?.message ?? (await toMessage(blocks, { connection, session, signal: cancelled }));
      if (isEmpty(message)) return { stopReason: "end_turn" };
      return converse({ connection, session, deps, ...turn }, message);
    },
  );
}

/** Runs a message that is not a request of the client: it has no response. */
function runMessage(
  connection: AcpConnection,
  session: AcpSession,
  { message, signal }: { readonly message: UserMessage; readonly signal: AbortSignal },
): Promise<PromptResponse> {
  return inTurn(session, { signal }, async (turn) => {
    const deps = await requireProvider(connection);
    return converse({ connection, session, deps, ...turn }, message);
  });
}

interface QueuedTurn {
  readonly turn: AcpTurn;
  /** The earlier unanswered turns of the session. */
  readonly before: readonly AcpTurn[];
}

interface TurnContext extends QueuedTurn {
  readonly connection: AcpConnection;
  readonly session: AcpSession;
  readonly deps: AcpDeps;
}

interface TurnCall {
  /** Aborts when the client cancels the prompt or disconnects. */
  readonly signal: AbortSignal;
  /** Calls back when the response is written. Absent: the turn has no response. */
  readonly answered?: (then: () => void) => void;
}

/** Enters the turn into the session's queue synchronously, and removes it at the end. */
async function inTurn(
  session: AcpSession,
  { signal, answered }: TurnCall,
  work: (turn: QueuedTurn) => Promise<PromptResponse>,
): Promise<PromptResponse> {
  const turn = new AcpTurn();
  const before = [...session.turns];
  const cancel = () => turn.cancel();
  session.turns.add(turn);
  answered?.(() => turn.answerSent());
  signal.addEventListener("abort", cancel, { once: true });
  if (signal.aborted) cancel();
  try {
    const response = await work({ turn, before });
    return turn.signal.aborted ? { ...response, stopReason: "cancelled" } : response;
  } catch (error) {
    if (turn.signal.aborted) return { stopReason: "cancelled" };
    throw error;
  } finally {
    signal.removeEventListener("abort", cancel);
    session.turns.delete(turn);
    turn.admitted();
    if (!answered) turn.answerSent();
  }
}

/** Runs the message. Steering text that arrives too late for the run starts another run of the same prompt. */
async function converse(context: TurnContext, message: UserMessage): Promise<PromptResponse> {
  for (let next: UserMessage | undefined = message; ;) {
    const last = await runOnce(context, next);
    if (!last) return { stopReason: "cancelled" };
    const late = last.type === "run.completed" ? (last.data["pending_steer"] as string[] | undefined) : [];
    next = late?.length ? { role: "user", text: late.join("\n\n") } : undefined;
    if (next) continue;
    context.connection.rejection = rejectionBy(last, context.deps);
    if (last.data["stop"] === "refusal" && last.data["undone"] !== true) reportRefusal(context, last);
    return toPromptResponse(last);
  }
}

/** Resolves to the final event of the run, or undefined if the prompt is cancelled. */
async function runOnce(context: TurnContext, message: UserMessage): Promise<JournalEvent | undefined> {
  const { connection, session, deps, turn, before } = context;
  const { agent, owner, store } = deps;
  const { signal } = turn;
  await waitForAll(
    signal,
    before.map(({ recorded }) => recorded),
  );
  if (signal.aborted) return undefined;
  await requireModel(deps, session);
  const { runId } = await agent.runs.submit({
    address: { owner, id: session.id },
    seed: session.seed,
    kind: "run",
    // At the limit of concurrent runs the prompt waits: the editor shows it as running.
    input: {
      prompt: [message],
      ...session.instructions,
      settings: {},
      answerable: true,
      undoesRefusal: true,
      slot: { group: "acp" },
    },
    whenBusy: "queue",
    // A prompt that is cancelled before it is recorded leaves no trace.
    alsoRecord: async () => signal.throwIfAborted(),
  });
  session.isSaved = true;
  turn.started(runId, (reason) => void stop(deps, runId, reason));
  await waitForAll(
    signal,
    before.map(({ answered }) => answered),
  );
  const reporter = new TurnReporter({ connection, deps, session, turn });
  const over = new AbortController();
  const whileWaiting = AbortSignal.any([signal, over.signal]);
  if (session.awaitedServers) {
    void reportWait(context, session.awaitedServers, { id: `${runId}:servers`, signal: whileWaiting });
  }
  try {
    const { last, after } = await reportRun(store, reporter, { runId, signal });
    if (!signal.aborted) return last ?? interrupted();
    await reporter.end();
    await waitForEnd(deps, runId, after);
    return undefined;
  } finally {
    over.abort();
    await reporter.end();
  }
}

/** Shorter waits are not reported. */
const SHOWN_WAIT_MS = 1_000;

/** Reports which of the client's MCP servers the turn waits for, unless they are ready soon. */
async function reportWait(
  { connection, session, deps }: TurnContext,
  awaited: () => readonly string[],
  { id, signal }: { readonly id: string; readonly signal: AbortSignal },
): Promise<void> {
  if (awaited().length === 0) return;
  await deps.clock.sleep(SHOWN_WAIT_MS, { signal }).catch(() => {});
  const names = awaited();
  if (signal.aborted || session.signal.aborted || names.length === 0) return;
  const text = `Waiting for the MCP ${names.length === 1 ? "server" : "servers"} ${names.join(", ")} to start.`;
  sendNotice(connection, session.id, { id, text, severity: "info" });
}

/** Requests the stop of the run, whose final event ends the turn. Logs a failure. */
async function stop({ agent, log }: AcpDeps, runId: string, reason: string): Promise<void> {
  await agent.runs
    .stop(runId, reason)
    .catch((error: unknown) => log.error("cannot stop a run", { run: runId, error }));
}

/** Resolves when the run has ended, or after a short time: a tool that stops slowly must not keep the client waiting. */
async function waitForEnd({ store, clock }: AcpDeps, runId: string, after: number): Promise<void> {
  const enough = new AbortController();
  const cancel = clock.after(CLEANUP_MS, () => enough.abort());
  try {
    for await (const events of store.journal.follow({ runId }, { after, signal: enough.signal })) {
      if (events.some(({ type }) => isFinalEvent(type))) return;
    }
  } finally {
    cancel();
    enough.abort();
  }
}

/** Resolves when all promises have, or the signal aborts. */
async function waitForAll(signal: AbortSignal, wanted: readonly Promise<void>[]): Promise<void> {
  if (wanted.length === 0 || signal.aborted) return;
  const { promise: aborted, resolve } = Promise.withResolvers<void>();
  const onAbort = () => resolve();
  signal.addEventListener("abort", onAbort, { once: true });
  await Promise.race([Promise.all(wanted), aborted]);
  signal.removeEventListener("abort", onAbort);
}

function interrupted(): never {
  throw RequestError.internalError(
    { kind: "internal", retryable: true },
    "The turn was interrupted. Send the prompt again.",
  );
}

function isEmpty({ text, attachments }: UserMessage): boolean {
  return text.trim() === "" && !attachments?.length;
}

/** How far a run was reported. `last` is its final event, or undefined if reporting was aborted. */
interface ReportedRun {
  readonly last: JournalEvent | undefined;
  /** The run sequence number of the last event that was read. */
  readonly after: number;
}

/** Reports a run from the event after `after` until it ends or `signal` aborts. Leaves the reporter open. */
async function reportRun(
  store: Store,
  reporter: TurnReporter,
  options: { readonly runId: string; readonly after?: number; readonly signal: AbortSignal },
): Promise<ReportedRun> {
  const { runId, signal } = options;
  let after = options.after ?? 0;
  for await (const events of store.journal.follow({ runId }, { after, signal })) {
    after = events.at(-1)?.runSeq ?? after;
    await reporter.report(events);
    const last = events.find(({ type }) => isFinalEvent(type));
    if (last || signal.aborted) return { last, after };
  }
  return { last: undefined, after };
}

/** Runs a message outside any request and reports a failure as an update. Never throws. */
export async function runDetached(
  connection: AcpConnection,
  session: AcpSession,
  message: UserMessage,
): Promise<void> {
  try {
    await runMessage(connection, session, { message, signal: session.signal });
  } catch (error) {
    await sendFailure(connection, session, toRequestError(error, session.id).message).catch(() => {});
  }
}

async function sendFailure(
  { client, features }: AcpConnection,
  { id, signal }: AcpSession,
  reason: string,
): Promise<void> {
  if (signal.aborted) return;
  const title = "The turn failed.";
  await client.notify("session/update", {
    sessionId: id,
    update: features.notices
      ? { sessionUpdate: "notice", severity: "error", title, description: reason }
      : { sessionUpdate: "agent_message_chunk", content: { type: "text", text: `${title} ${reason}` } },
  });
}

const REFUSED =
  "The model refused to continue. This turn stays in the conversation because it has called tools.";

function reportRefusal({ connection, session }: TurnContext, { runId, seq }: JournalEvent): void {
  sendNotice(connection, session.id, { id: `${runId ?? ""}:${seq}`, text: REFUSED });
}

/** Returns the rejection of the key with which a run failed. A run that reached its model has none. */
function rejectionBy({ data }: JournalEvent, deps: AcpDeps): AcpConnection["rejection"] {
  const { kind } = (data["failure"] ?? {}) as Partial<ProviderFailure>;
  if (kind !== "authentication") return undefined;
  return { deps, message: (data["error"] as { readonly message: string }).message };
}

const STOPS: Readonly<Record<string, StopReason>> = {
  end: "end_turn",
  length: "max_tokens",
  max_steps: "max_turn_requests",
  tool_calls: "end_turn",
};

/** Returns the response for the final event of a run. RequestError if the run failed. */
function toPromptResponse({ type, data }: Pick<JournalEvent, "type" | "data">): PromptResponse {
  const usage = usageOf(data["usage"] as RunUsage | undefined);
  switch (type) {
    case "run.completed":
      // Clients remove the prompt of a refused turn, so it must be gone from the conversation too.
      if (data["undone"] === true) return { stopReason: "refusal", ...usage };
      return { stopReason: STOPS[String(data["stop"])] ?? "end_turn", ...usage };
    case "run.cancelled":
      return { stopReason: "cancelled", ...usage };
    default:
      throw runFailed({
        message: (data["error"] as { readonly message: string }).message,
        failure: data["failure"] as ProviderFailure | undefined,
        retryAfterSeconds: data["retry_after_seconds"] as number | undefined,
      });
  }
}

function usageOf(usage: RunUsage | undefined): { readonly usage?: Usage } {
  if (!usage || usage.model_calls === 0) return {};
  return {
    usage: {
      totalTokens: usage.total_tokens,
      inputTokens: usage.input_tokens,
      outputTokens: usage.output_tokens,
      thoughtTokens: usage.reasoning_tokens,
      cachedReadTokens: usage.cached_input_tokens,
      cachedWriteTokens: usage.cache_write_tokens,
    },
  };
}
