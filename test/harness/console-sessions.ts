/** Long conversations for the console in Chromium, written beside the gateway. */
import type { RunAccepted } from "../../generated/http/client/types.gen.ts";
import { addMessages } from "../../src/agent/session/transcript.ts";
import type { Message } from "../../src/agent/engine.ts";
import { openStore } from "../../src/store/open.ts";
import type { ConsoleTest } from "./browser.ts";
import { callApi } from "./console-webhooks.ts";

const AT_ONCE = 1_000;

/**
 * Makes a session of one turn and this many messages behind it: `Message 0`, a prompt, to the last one. Resolves to its id.
 * The model does not see them.
 */
export async function addLongSession(shown: ConsoleTest, count: number): Promise<string> {
  const run = await callApi<RunAccepted>(shown, "/v1/runs", { input: "A long conversation" });
  await (await shown.request(`/v1/runs/${run.id}/events`)).text();
  const where = { sessionId: run.session_id, runId: run.id };
  const store = await openStore({ url: shown.place.database });
  try {
    for (let from = 0; from < count; from += AT_ONCE) {
      const messages = Array.from({ length: Math.min(AT_ONCE, count - from) }, (_, index) =>
        messageOf(from + index),
      );
      await store.write((tx) => addMessages(tx, where, messages));
    }
    await store.write(async (tx) => {
      const session = await tx.find("sessions", { id: where.sessionId });
      await tx.update("sessions", { id: where.sessionId }, { context_seq: session?.last_message ?? 0 });
    });
  } finally {
    await store.close();
  }
  return where.sessionId;
}

function messageOf(index: number): Message {
  const text = `**Message ${index}**\n\n- with a list\n- and \`code\`\n\nand a paragraph of some length that wraps on a phone.`;
  return index % 2 === 0 ? { role: "user", text } : { role: "assistant", parts: [{ type: "text", text }] };
}
