/** Methods that begin a session and end it. */
import { createSessionId } from "../../base/ids.ts";
import type { AcpGroup } from "../wire/contract.ts";
import { requireProvider } from "../settings/provider.ts";
import { afterOpen, openedAnswer, orClosed } from "../session/answer.ts";
import { closeSession, openSession } from "../session/open.ts";

export const sessionMethods: AcpGroup<"session/new" | "session/close"> = {
  "session/new": async ({ params, requestId, signal }, connection) => {
    const { clock } = await requireProvider(connection);
    const id = createSessionId(clock.now());
    // Editors show the mode, so it is chosen from the start: in `ask` every edit asks.
    const seed = { source: "acp", cwd: params.cwd, settings: { mode: "ask" } } as const;
    const made = { id, seed, row: undefined };
    const session = await openSession(connection, made, params, { signal });
    const answer = await orClosed(connection, session, () => openedAnswer(connection, session, signal));
    afterOpen(connection, session, { requestId });
    return { sessionId: id, ...answer };
  },

  "session/close": async ({ params }, connection) => {
    await closeSession(connection, connection.session(params.sessionId));
    return {};
  },
};
