/** Methods that begin a session. */
import { createSessionId } from "../../base/ids.ts";
import type { AcpGroup } from "../contract.ts";
import { checkFolder } from "../folder.ts";
import { AcpSession } from "../session.ts";

export const sessionMethods: AcpGroup<"session/new"> = {
  "session/new": async ({ params }, connection) => {
    const cwd = await checkFolder(params.cwd);
    const { clock } = await connection.room();
    const id = createSessionId(clock.now());
    connection.open(new AcpSession(id, { source: "acp", cwd }));
    return { sessionId: id };
  },
};
