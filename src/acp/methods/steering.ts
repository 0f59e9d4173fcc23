/** `_session/steering`: a prompt that goes into the turn at work. */
import type { ContentBlock } from "@agentclientprotocol/sdk/unstable";
import { fileText } from "../../agent/engines/user-prompt.ts";
import type { UserMessage } from "../../agent/message.ts";
import { runningTurn } from "../../agent/run/run.ts";
import { isRecord } from "../../base/json/schema.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { readBlocks } from "../prompt/content-blocks.ts";
import { toMessage } from "../prompt/content.ts";
import type { AcpExtensionHandler } from "../wire/contract.ts";
import { detachedTurn } from "../prompt/detached-turn.ts";
import { invalidParams } from "../wire/error.ts";
import type { AcpSession } from "../session/session.ts";
import { requireUndeleted } from "../session/open.ts";

interface Steering {
  readonly sessionId: string;
  readonly prompt: readonly ContentBlock[];
  /** What to do when nothing is at work. */
  readonly whenIdle: "startNewTurn" | "promptRequired";
}

interface Steered {
  readonly outcome: "injected" | "startedNewTurn" | "promptRequired";
  readonly reason?: "noRunningTurn" | "notText";
}

export const steering: AcpExtensionHandler<Steering, Steered> = {
  parse(params) {
    const { sessionId, prompt, _meta: meta } = isRecord(params) ? params : {};
    if (typeof sessionId !== "string") throw invalidParams("sessionId", "sessionId must be a text.");
    return { sessionId, prompt: readBlocks(prompt), whenIdle: readWhenIdle(meta) };
  },

  handle: async ({ params, signal, requestId }, connection) => {
    const { sessionId, prompt, whenIdle } = params;
    const session = connection.session(sessionId);
    await requireUndeleted(connection, session, requestId);
    const message = await toMessage(prompt, { connection, session, signal });
    const text = steerable(message);
    if (text === "") throw invalidParams("prompt", "prompt says nothing.");
    if (text !== undefined && (await steer(connection, session, text))) return { outcome: "injected" };
    if (whenIdle === "promptRequired") {
      // The client keeps what it has: nothing of it is taken.
      return { outcome: "promptRequired", reason: text === undefined ? "notText" : "noRunningTurn" };
    }
    connection.afterAnswer(requestId, () => void detachedTurn(connection, session, message));
    return { outcome: "startedNewTurn" };
  },
};

/** RequestError for a value that is not known: the client counts on what it asked for. */
function readWhenIdle(meta: unknown): Steering["whenIdle"] {
  const steering = isRecord(meta) ? meta["steering"] : undefined;
  const wish = isRecord(steering) ? steering["idleBehavior"] : undefined;
  if (wish === undefined || wish === null) return "startNewTurn";
  if (wish === "promptRequired" || wish === "startNewTurn") return wish;
  throw invalidParams(
    "_meta.steering.idleBehavior",
    "_meta.steering.idleBehavior must be promptRequired or startNewTurn.",
  );
}

/** False when no turn takes it (any more), in whatever process it runs. */
async function steer(connection: AcpConnection, { id }: AcpSession, text: string): Promise<boolean> {
  const { agent, store } = await connection.deps();
  const runId = agent.runs.runningIn(id) ?? (await runningTurn(store, id))?.runId;
  return runId !== undefined && agent.runs.steer(runId, text);
}

/** A turn at work takes text: files of text stand in it. Undefined for what holds images. */
function steerable({ text, attachments = [] }: UserMessage): string | undefined {
  if (attachments.some(({ type }) => type === "image")) return undefined;
  return [text.trim(), ...attachments.map(fileText)].filter((part) => part !== "").join("\n\n");
}
