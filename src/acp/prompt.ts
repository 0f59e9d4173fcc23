import { RequestError, type PromptResponse } from "@agentclientprotocol/sdk/unstable";
import { isFinalEvent } from "../agent/event.ts";
import { followRun } from "../agent/follow-run.ts";
import type { JournalEvent } from "../store/journal.ts";
import type { AcpConnection } from "./connection.ts";
import type { AcpCall } from "./contract.ts";
import { askPermission } from "./permission.ts";
import { toMessage } from "./content.ts";
import type { AcpSession } from "./session.ts";
import { AcpTurn } from "./turn.ts";
import { toUpdates } from "./update.ts";

/**
 * One prompt, from its blocks to its stop reason. Prompts of a session take turns; a later one waits here. RequestError
 * when the turn failed.
 */
export async function runPrompt(
  connection: AcpConnection,
  session: AcpSession,
  { params, signal }: AcpCall<"session/prompt">,
): Promise<PromptResponse> {
  const message = await toMessage(params.prompt, { connection, session, signal });
  if (message.text.trim() === "" && !message.attachments?.length) return { stopReason: "end_turn" };
  const turn = new AcpTurn();
  const cancel = () => turn.cancel();
  session.turns.add(turn);
  signal.addEventListener("abort", cancel, { once: true });
  if (signal.aborted) cancel();
  try {
    const { agent, owner } = await connection.room();
    const { runId } = await agent.turns.submit({
      address: { owner, id: session.id },
      seed: session.seed,
      kind: "run",
      input: { prompt: [message], settings: {}, answerable: true, isDetached: true },
      whenBusy: "queue",
    });
    const stop = () => void agent.turns.stop(runId, "The editor cancelled the prompt.");
    turn.runId = runId;
    turn.signal.addEventListener("abort", stop, { once: true });
    if (turn.signal.aborted) stop();
    return await tell(connection, session, turn, runId);
  } finally {
    signal.removeEventListener("abort", cancel);
    session.turns.delete(turn);
  }
}

async function tell(
  connection: AcpConnection,
  session: AcpSession,
  turn: AcpTurn,
  runId: string,
): Promise<PromptResponse> {
  const { client } = connection;
  const { store } = await connection.room();
  for await (const event of followRun(store, runId)) {
    if (isFinalEvent(event.type)) return stopOf(event);
    for (const update of toUpdates(event)) {
      await client.notify("session/update", { sessionId: session.id, update });
    }
    if (event.type === "approval.request") {
      void askPermission(connection, { event, sessionId: session.id, signal: turn.signal });
    }
  }
  throw RequestError.internalError({ kind: "internal" }, "The turn has no end.");
}

const STOPS = { end: "end_turn", length: "max_tokens", max_steps: "max_turn_requests", refusal: "refusal" };

function stopOf({ type, data }: JournalEvent): PromptResponse {
  switch (type) {
    case "run.completed": {
      const stop = STOPS[data["stop"] as keyof typeof STOPS] ?? "end_turn";
      return { stopReason: stop as PromptResponse["stopReason"] };
    }
    case "run.cancelled":
      return { stopReason: "cancelled" };
    default: {
      const { code, message } = data["error"] as { readonly code: string; readonly message: string };
      throw new RequestError(-32_603, message, { kind: "provider", reason: code, retryable: false });
    }
  }
}
