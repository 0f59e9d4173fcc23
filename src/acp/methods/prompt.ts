/** Methods that ask the agent something. */
import type { AcpGroup, AcpNotificationGroup } from "../wire/contract.ts";
import { runPrompt } from "../prompt/prompt.ts";

export const promptMethods: AcpGroup<"session/prompt"> = {
  "session/prompt": async (call, connection) => {
    const session = connection.session(call.params.sessionId);
    return runPrompt(connection, session, call);
  },
};

export const promptNotifications: AcpNotificationGroup<"session/cancel"> = {
  "session/cancel": async ({ params }, connection) => connection.find(params.sessionId)?.interrupt(),
};
