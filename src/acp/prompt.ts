import {
  RequestError,
  type AgentContext,
  type ContentBlock,
  type PromptResponse,
} from "@agentclientprotocol/sdk/unstable";
import { followRun } from "../agent/follow-run.ts";
import type { UserMessage } from "../agent/message.ts";
import { isFinalEvent } from "../agent/event.ts";
import type { JournalEvent } from "../store/journal.ts";
import { askPermission } from "./permission.ts";
import type { AcpRoom } from "./room.ts";
import type { AcpSession } from "./session.ts";
import { toUpdates } from "./update.ts";

export interface PromptCall {
  readonly client: AgentContext;
  /** The client gave the request up, or is gone. */
  readonly signal: AbortSignal;
}

/**
 * One prompt, from its blocks to its stop reason. Prompts of a session take turns; a later one waits here. RequestError
 * when the turn failed.
 */
export async function runPrompt(
  room: AcpRoom,
  session: AcpSession,
  blocks: readonly ContentBlock[],
  { client, signal }: PromptCall,
): Promise<PromptResponse> {
  const message = toMessage(blocks);
  if (message.text.trim() === "" && !message.attachments?.length) return { stopReason: "end_turn" };
  const { runId } = await room.agent.turns.submit({
    address: { owner: room.owner, id: session.id },
    seed: session.seed,
    kind: "run",
    input: { prompt: [message], settings: {}, answerable: true, isDetached: true },
    whenBusy: "queue",
    beforeStart: (id) => session.began(id),
  });
  const onAbort = () => void room.agent.turns.stop(runId, "The editor cancelled the prompt.");
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await tell(room, session, { runId, client });
  } finally {
    signal.removeEventListener("abort", onAbort);
    session.ended(runId);
  }
}

async function tell(
  room: AcpRoom,
  session: AcpSession,
  { runId, client }: { readonly runId: string; readonly client: AgentContext },
): Promise<PromptResponse> {
  for await (const event of followRun(room.store, runId)) {
    if (isFinalEvent(event.type)) return stopOf(event);
    for (const update of toUpdates(event)) {
      await client.notify("session/update", { sessionId: session.id, update });
    }
    if (event.type === "approval.request") {
      void askPermission(room, { event, sessionId: session.id, client, signal: session.signalOf(runId) });
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

function toMessage(blocks: readonly ContentBlock[]): UserMessage {
  const texts = blocks.map((block) => {
    switch (block.type) {
      case "text":
        return block.text;
      case "resource_link":
        return `[${block.name}](${block.uri})`;
      case "resource":
        return "text" in block.resource
          ? `${block.resource.uri}:\n${block.resource.text}`
          : block.resource.uri;
      default:
        throw RequestError.invalidParams({ type: block.type }, `Blocks of type ${block.type} are not taken.`);
    }
  });
  return { role: "user", text: texts.join("\n\n") };
}
