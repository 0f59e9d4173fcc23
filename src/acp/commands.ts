/** The slash commands that a client is told of. */
import type { AvailableCommand } from "@agentclientprotocol/sdk/unstable";
import type { Command } from "../agent/command.ts";
import type { AcpConnection } from "./connection.ts";
import type { AcpSession } from "./session.ts";

/** What an editor does by itself: what to do there in the place of the command. */
const OF_EDITORS: ReadonlyMap<string, string> = new Map([
  ["new", "Begin a new session in your editor."],
  ["resume", "Choose a session from the list of your editor."],
  ["background", "Begin another session in your editor: sessions work side by side."],
]);

/** Undefined: the command works for editors too. */
export function editorsWay({ name, category }: Command): string | undefined {
  return category === "Your own" || category === "Skills" ? undefined : OF_EDITORS.get(name);
}

/** What each open session was told last. */
const told = new WeakMap<AcpSession, string>();

/** Tells the client the commands of the session, whether or not it knows them. */
export async function announceCommands(connection: AcpConnection, session: AcpSession): Promise<void> {
  await announce(connection, session, await available(connection, session));
}

/** Tells of each session whose commands are others than the client was told. Never throws. */
export async function announceChanges(connection: AcpConnection): Promise<void> {
  for (const session of connection.sessions) {
    if (!told.has(session)) continue;
    try {
      const commands = await available(connection, session);
      if (told.get(session) !== JSON.stringify(commands)) await announce(connection, session, commands);
    } catch (error) {
      const { log } = await connection.room();
      log.warn("a client was not told of new commands", { session: session.id, error });
    }
  }
}

async function announce(
  { client }: AcpConnection,
  session: AcpSession,
  availableCommands: AvailableCommand[],
): Promise<void> {
  if (session.signal.aborted) return;
  told.set(session, JSON.stringify(availableCommands));
  const update = { sessionUpdate: "available_commands_update" as const, availableCommands };
  await client.notify("session/update", { sessionId: session.id, update });
}

async function available(connection: AcpConnection, session: AcpSession): Promise<AvailableCommand[]> {
  const { commands } = await connection.room();
  const all = await commands.list(session.seed.cwd);
  return all
    .filter((command) => editorsWay(command) === undefined)
    .map(({ name, description, hint }) => ({
      name,
      description,
      ...(hint === undefined ? {} : { input: { hint } }),
    }));
}
