import { RequestError, type PromptResponse } from "@agentclientprotocol/sdk/unstable";
import { isFinalEvent } from "../../agent/run/event.ts";
import type { UserMessage } from "../../agent/message.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { authMethodsFor } from "../methods/auth-methods.ts";
import { requireModel } from "../settings/chosen.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { toMessage } from "./content.ts";
import type { AcpCall } from "../wire/contract.ts";
import { forwardRun } from "./forward-run.ts";
import { requireProvider } from "../settings/provider.ts";
import type { AcpDeps } from "../deps.ts";
import type { AcpSession } from "../session/session.ts";
import { requireUndeleted } from "../session/open.ts";
import { dispatchCommand } from "./slash.ts";
import { stopOf } from "./stop.ts";
import { TurnReporter } from "./turn-reporter.ts";
import { AcpTurn } from "./turn.ts";

/** What a cancelled prompt waits for the work behind it to stop, so that what the client asks next finds it over. */
const CLEANUP_MS = 400;

/**
 * One prompt, from its blocks to its stop reason. Prompts of a session take turns; a later one waits here. RequestError
 * when the turn failed; a cancel wins over whatever else happens.
 */
export function runPrompt(
  connection: AcpConnection,
  session: AcpSession,
  { params, signal, requestId }: AcpCall<"session/prompt">,
): Promise<PromptResponse> {
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

/** As {@link runPrompt}, for a message that came another way: nobody waits for its answer on the wire. */
export function runMessage(
  connection: AcpConnection,
  session: AcpSession,
  { message, signal }: { readonly message: UserMessage; readonly signal: AbortSignal },
): Promise<PromptResponse> {
  return inTurn(session, { signal }, async (turn) => {
    const deps = await requireProvider(connection);
    return converse({ connection, session, deps, ...turn }, message);
  });
}

interface PlacedTurn {
  readonly turn: AcpTurn;
  /** Those of the session that had no answer when it came. */
  readonly before: readonly AcpTurn[];
}

interface Talk extends PlacedTurn {
  readonly connection: AcpConnection;
  readonly session: AcpSession;
  readonly deps: AcpDeps;
}

interface TurnCall {
  /** Aborts when the client withdraws the prompt, or is gone. */
  readonly signal: AbortSignal;
  /** Calls back when the answer is on its way. Absent: there is none. */
  readonly answered?: (then: () => void) => void;
}

/** Takes the turn's place in the session before anything is waited for, and gives it back. */
async function inTurn(
  session: AcpSession,
  { signal, answered }: TurnCall,
  work: (turn: PlacedTurn) => Promise<PromptResponse>,
): Promise<PromptResponse> {
  const turn = new AcpTurn();
  const before = [...session.turns];
  const cancel = () => turn.cancel();
  session.turns.add(turn);
  answered?.(() => turn.told());
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
    turn.placed();
    if (!answered) turn.told();
  }
}

/** What was said to the agent while it worked and came too late for it is one more run of the same prompt. */
async function converse(talk: Talk, message: UserMessage): Promise<PromptResponse> {
  const { connection, turn } = talk;
  for (let next: UserMessage | undefined = message; ;) {
    const last = await runOnce(talk, next);
    if (!last) return { stopReason: "cancelled" };
    const late = last.type === "run.completed" ? (last.data["pending_steer"] as string[] | undefined) : [];
    next = late?.length ? { role: "user", text: late.join("\n\n") } : undefined;
    if (next && !turn.endsWithQuestion) continue;
    const authMethods = authMethodsFor(connection);
    return stopOf(last, { authMethods, endsWithQuestion: turn.endsWithQuestion });
  }
}

/** Resolves to the final event of the run; undefined when the prompt was cancelled. */
async function runOnce(
  { connection, session, deps, turn, before }: Talk,
  message: UserMessage,
): Promise<JournalEvent | undefined> {
  const { agent, owner, store } = deps;
  const { signal } = turn;
  await allOf(
    signal,
    before.map(({ recorded }) => recorded),
  );
  if (signal.aborted) return undefined;
  await requireModel(deps, session);
  const { runId } = await agent.runs.submit({
    address: { owner, id: session.id },
    seed: session.seed,
    kind: "run",
    // The editor waits for its answer: at the limit of all runs the prompt waits for its turn.
    input: { prompt: [message], settings: {}, answerable: true, slot: { group: "acp" } },
    whenBusy: "queue",
    // Until it is recorded a prompt that was cancelled leaves nothing behind.
    alsoRecord: async () => signal.throwIfAborted(),
  });
  session.isSaved = true;
  turn.begun(runId, (reason) => void stop(deps, runId, reason));
  await allOf(
    signal,
    before.map(({ answered }) => answered),
  );
  const reporter = new TurnReporter({ connection, deps, session, turn });
  try {
    const { last, after } = await forwardRun(store, reporter, { runId, signal });
    if (!signal.aborted) return last ?? noEnd();
    await reporter.end();
    await ended(deps, runId, after);
    return undefined;
  } finally {
    await reporter.end();
  }
}

/** The turn ends by its own event; a stop that cannot be recorded is told in the log. */
async function stop({ agent, log }: AcpDeps, runId: string, reason: string): Promise<void> {
  await agent.runs
    .stop(runId, reason)
    .catch((error: unknown) => log.error("a run could not be stopped", { run: runId, error }));
}

/** Resolves when the run has ended, or has been given time enough: a tool that dies slowly does not keep the client waiting. */
async function ended({ store, clock }: AcpDeps, runId: string, after: number): Promise<void> {
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

/** Resolves when all that is wanted has, or the signal aborts. */
async function allOf(signal: AbortSignal, wanted: readonly Promise<void>[]): Promise<void> {
  if (wanted.length === 0 || signal.aborted) return;
  const { promise: aborted, resolve } = Promise.withResolvers<void>();
  const onAbort = () => resolve();
  signal.addEventListener("abort", onAbort, { once: true });
  await Promise.race([Promise.all(wanted), aborted]);
  signal.removeEventListener("abort", onAbort);
}

function noEnd(): never {
  throw RequestError.internalError(
    { kind: "internal", retryable: true },
    "The turn was broken off. Send the prompt again.",
  );
}

function isEmpty({ text, attachments }: UserMessage): boolean {
  return text.trim() === "" && !attachments?.length;
}
