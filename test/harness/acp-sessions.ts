/** Sessions of editors: made without prompts, opened again, and what is expected of them. */
import assert from "node:assert/strict";
import { RequestError, type SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import type { Message } from "../../src/agent/engine.ts";
import { newSession } from "../../src/agent/session/session.ts";
import { openStore } from "../../src/store/open.ts";
import type { Store } from "../../src/store/store.ts";
import type { SessionRow } from "../../src/store/schema/tables.ts";
import type { AcpClient, AcpPlace } from "./acp.ts";

/** The store of a place, beside its processes. */
export async function storeOf(place: AcpPlace): Promise<Store & AsyncDisposable> {
  const store = await openStore({ url: place.database });
  return Object.assign(store, { [Symbol.asyncDispose]: () => store.close() });
}

export interface Conversation {
  readonly id: string;
  readonly source?: string;
  readonly owner?: string;
  readonly cwd?: string;
  readonly set?: Partial<SessionRow>;
  readonly messages?: readonly Message[];
}

/** Saves sessions as turns that are long over left them; the first is the newest. */
export async function saveConversations(store: Store, conversations: readonly Conversation[]): Promise<void> {
  await store.write(async (tx) => {
    for (const [
      index,
      { id, owner = "default", source = "acp", cwd, set, messages },
    ] of conversations.entries()) {
      const said = messages ?? [{ role: "user" as const, text: `prompt of ${id}` }];
      const seed = { source, ...(cwd === undefined ? {} : { cwd }) };
      const nowMs = tx.nowMs - 60_000 - index;
      await tx.insert("sessions", [
        { ...newSession({ owner, id }, seed, nowMs), last_message: said.length, ...set },
      ]);
      const rows = said.map((message, at) => ({
        session_id: id,
        seq: at + 1,
        run_id: null,
        role: message.role,
        content: JSON.stringify(message),
        created_at: nowMs,
      }));
      if (rows.length > 0) await tx.insert("messages", rows);
    }
  });
}

/** Rejects with this code of the protocol; resolves to the error. */
export async function refused(request: Promise<unknown>, code: number, what = ""): Promise<RequestError> {
  const error = await request.then(
    (value) => assert.fail(`${what} answered: ${JSON.stringify(value)?.slice(0, 200)}`),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof RequestError, String(error));
  assert.equal(error.code, code, `${what} ${error.message}`);
  return error;
}

export function load(client: AcpClient, sessionId: string, cwd: string) {
  return client.agent.request("session/load", { sessionId, cwd, mcpServers: [] });
}

export function resume(client: AcpClient, sessionId: string, cwd: string) {
  return client.agent.request("session/resume", { sessionId, cwd, mcpServers: [] });
}

/** What was told of a session, in its order. */
export function told(client: AcpClient, sessionId: string): readonly SessionUpdate[] {
  return client.seen.flatMap((each) =>
    each.kind === "update" && each.sessionId === sessionId ? [each.update] : [],
  );
}

const HISTORY =
  /^(?:user_message_chunk|agent_message_chunk|agent_thought_chunk|tool_call|tool_call_update|plan)$/;

/** The same, but for what belongs to the session and not to its turns. */
export function history(client: AcpClient, sessionId: string): readonly SessionUpdate[] {
  return told(client, sessionId).filter(({ sessionUpdate }) => HISTORY.test(sessionUpdate));
}

/** Resolves when the client was told of the commands of the session, which stands behind each answer that opens one. */
export async function opened(client: AcpClient, sessionId: string, times = 1): Promise<void> {
  await client.until(() =>
    client.updates("available_commands_update", sessionId).length >= times ? true : undefined,
  );
}
