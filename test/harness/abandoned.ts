import { runEvent } from "../../src/agent/run/event.ts";
import { createId, createSessionId } from "../../src/base/text.ts";
import type { Store } from "../../src/store/store.ts";
import { runRow, sessionRow } from "../unit/store/rows.ts";

/** Owner of the leases: no process. */
export const GHOST = "process-that-never-was";

export interface Abandoned {
  readonly sessionId: string;
  readonly runId: string;
}

/**
 * Leaves `count` sessions as a process leaves them that is killed in the middle of their runs: each has said half an
 * answer, and a tool call of it has not ended.
 */
export async function abandonSessions(
  store: Store,
  count: number,
  owner = "tester",
): Promise<readonly Abandoned[]> {
  const made: Abandoned[] = [];
  for (let from = 0; from < count; from += 250) {
    const some = Array.from({ length: Math.min(250, count - from) }, () => ({
      sessionId: createSessionId(),
      runId: createId("run"),
    }));
    await Promise.all(
      some.map(({ sessionId, runId }) =>
        store.write((tx) =>
          store.journal.begin(
            tx,
            {
              session: sessionRow({ id: sessionId, owner, lease_owner: GHOST, lease_until: 1 }),
              run: runRow(sessionId, { id: runId, owner, input: INPUT }),
            },
            [
              runEvent(runId, "run.started", { session_id: sessionId, model: "test:one", kind: "run" }),
              runEvent(runId, "message.delta", { message_id: "msg_1", delta: "half an answer" }),
              runEvent(runId, "tool.started", {
                tool_call_id: "c1",
                tool: "terminal",
                kind: "execute",
                arguments: {},
              }),
            ],
          ),
        ),
      ),
    );
    made.push(...some);
  }
  return made;
}

const INPUT = JSON.stringify({
  prompt: [{ role: "user", text: "hi" }],
  settings: {},
  answerable: false,
  isDetached: true,
});
