/** Editors whose user takes time to give leave, and a turn that waits for it. */
import { calling, saying, type Replies } from "./openai-server.ts";
import type { AcpPlace } from "./acp.ts";

/** Of the configuration: every change is asked about. */
export const asking = "approvals: { mode: always_ask }\n";

/** The first step of a turn asks for leave, which lasts until the test gives it. */
export const twoSteps: Replies = (_, index) =>
  index === 0
    ? calling({ id: "call_1", name: "terminal", json: JSON.stringify({ command: "echo one > made.txt" }) })
    : saying(`answer ${index}`);

/** An editor whose user looks at a question, and gives leave when told to. */
export async function deciding(place: AcpPlace) {
  const asked = Promise.withResolvers<void>();
  const leave = Promise.withResolvers<void>();
  const process = place.start();
  const editor = await process.client({
    permission: async () => {
      asked.resolve();
      await leave.promise;
      return { outcome: { outcome: "selected", optionId: "allow_once" } };
    },
  });
  return { editor, process, asked: asked.promise, allow: leave.resolve };
}
