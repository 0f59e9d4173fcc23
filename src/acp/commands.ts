/** The slash commands that a client is told of. */
import type { AcpConnection } from "./connection.ts";
import type { AcpSession } from "./session.ts";

/** Tells the client the commands of the session. Never throws: a client that left hears nothing. */
export async function announceCommands(connection: AcpConnection, session: AcpSession): Promise<void> {
  try {
    const { commands } = await connection.room();
    const availableCommands = (await commands.list()).map(({ name, description, hint }) => ({
      name,
      description,
      ...(hint === undefined ? {} : { input: { hint } }),
    }));
    if (session.signal.aborted) return;
    const update = { sessionUpdate: "available_commands_update" as const, availableCommands };
    await connection.client.notify("session/update", { sessionId: session.id, update });
  } catch {
    // The client is gone, or the agent does not load: the next request says why.
  }
}
