/** The slash commands that a client is told of. */
import type { AvailableCommand } from "@agentclientprotocol/sdk/unstable";
import type { Command } from "../../agent/commands/command.ts";
import type { AcpConnection } from "../wire/connection.ts";
import type { AcpSession } from "../session/session.ts";

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
  await announce(connection, session, await available(connection, session.seed.cwd));
}

/** Tells of each session whose commands are others than the client was told. Never throws: the next look finds them too. */
export async function announceChanges(connection: AcpConnection): Promise<void> {
  // Most sessions work in the same folder, and each look reads its files.
  const byFolder = new Map<string, AvailableCommand[] | undefined>();
  for (const session of connection.sessions) {
    if (!told.has(session)) continue;
    const { cwd } = session.seed;
    if (!byFolder.has(cwd)) byFolder.set(cwd, await available(connection, cwd).catch(() => undefined));
    const commands = byFolder.get(cwd);
    if (!commands || told.get(session) === JSON.stringify(commands)) continue;
    await announce(connection, session, commands).catch(() => {});
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

async function available(connection: AcpConnection, cwd: string): Promise<AvailableCommand[]> {
  const { commands } = await connection.deps();
  const all = await commands.list(cwd);
  return all
    .filter((command) => editorsWay(command) === undefined)
    .map(({ name, description, hint }) => ({
      name,
      description,
      ...(hint === undefined ? {} : { input: { hint } }),
    }));
}
