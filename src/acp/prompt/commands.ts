/** Slash commands: lists them for clients and runs those that arrive as prompts. */
import type {
  ContentBlock,
  PromptResponse,
  SessionUpdate,
  AvailableCommand,
} from "@agentclientprotocol/sdk/unstable";
import { parseCommand, type Command, type Directive } from "../../agent/agent.ts";
import type { UserMessage } from "../../agent/engine.ts";
import { saveSession } from "../../agent/session/sessions.ts";
import { ServiceError } from "../../base/errors.ts";
import { createId } from "../../base/text.ts";
import type { AcpConnection, AcpSession } from "../wire/connection.ts";
import { referenceText, toMessage } from "./content.ts";
import { bounded, fenced } from "../tools/content.ts";
import { announceApprovals } from "../session/options.ts";

interface DispatchCall {
  readonly connection: AcpConnection;
  readonly session: AcpSession;
  readonly blocks: readonly ContentBlock[];
  /** Aborts when the prompt is cancelled. */
  readonly signal: AbortSignal;
}

/** The result of a command: a response, or a message for the model. */
type CommandResult =
  | { readonly type: "answer"; readonly response: PromptResponse }
  | { readonly type: "prompt"; readonly message: UserMessage };

const MAX_ALIASES = 8;

/**
 * Runs the command at the start of a prompt of text and mentions, without waiting for a running turn, and sends its
 * output. A message for the model keeps the files of the mentions. Returns undefined if there is no such command: the
 * prompt is for the model.
 */
export async function dispatchCommand(call: DispatchCall): Promise<CommandResult | undefined> {
  const { connection, session, signal } = call;
  const text = textOf(call.blocks);
  const isCommand = text !== undefined && (await find(call, text)) !== undefined;
  const outcome = isCommand ? await Promise.race([run(call, text), cancelled(signal)]) : undefined;
  if (signal.aborted) return { type: "answer", response: { stopReason: "cancelled" } };
  // The command, or an earlier turn, may have changed the list of commands.
  void announceChanges(connection);
  if (isCommand) void announceApprovals(connection).catch(() => {});
  if (!outcome) return undefined;
  const { output, prompt, notice } = outcome;
  if (output !== undefined && output !== "")
    await send(connection, session, message(output, (await connection.deps()).clock.now()));
  if (notice !== undefined && connection.features.notices) {
    await send(connection, session, { sessionUpdate: "notice", severity: "info", title: notice });
  }
  if (prompt === undefined) return { type: "answer", response: { stopReason: "end_turn" } };
  const { attachments } = await toMessage(call.blocks, call);
  return { type: "prompt", message: { role: "user", text: prompt, ...(attachments ? { attachments } : {}) } };
}

/** The outcome of a command. */
interface Outcome {
  /** Text for the user. */
  readonly output?: string;
  /** A prompt for the model. */
  readonly prompt?: string;
  readonly notice?: string;
}

/** Runs the command and returns errors as output, except ServiceError `session_not_found`. */
async function run(call: DispatchCall, text: string): Promise<Outcome> {
  try {
    return outcomeOf(await dispatch(call, text));
  } catch (error) {
    if (error instanceof ServiceError && error.code !== "session_not_found") return { output: error.message };
    throw error;
  }
}

/** Returns the directive of a command after resolving aliases. */
async function dispatch(call: DispatchCall, typed: string): Promise<Directive> {
  const { connection, session, signal } = call;
  const { commands, agent, owner, store } = await connection.deps();
  const { id, seed } = session;
  let text = typed;
  for (let hop = 0; hop < MAX_ALIASES; hop++) {
    const command = await find(call, text);
    const way = command && editorHint(command);
    if (way !== undefined) return { type: "exec", output: way };
    // All commands but help work on a saved session.
    const isAbout = command !== undefined && command.category !== "Help";
    if (isAbout) await saveSession(store, { id, owner, seed });
    const about = isAbout ? { sessionId: id } : {};
    const done = await commands.dispatch(text, { agent, owner, signal, cwd: seed.cwd, ...about });
    if (done.type !== "alias") return done;
    text = done.target;
  }
  throw new ServiceError(
    "command_usage",
    `The command is an alias of an alias, more than ${MAX_ALIASES} levels deep.`,
  );
}

function outcomeOf(done: Directive): Outcome {
  switch (done.type) {
    case "exec": {
      const { output, sessionId } = done;
      // Only the editor can switch to another session.
      const where =
        sessionId === undefined ? "" : `\nOpen session ${sessionId} in your editor to continue there.`;
      return { output: output + where };
    }
    case "prefill":
      // The protocol cannot fill the input field of the editor.
      return { output: [done.notice, "The prompt was:", done.message].filter(Boolean).join("\n") };
    case "send":
      return { prompt: done.message, ...(done.notice === undefined ? {} : { notice: done.notice }) };
    case "skill":
      return { prompt: done.message };
    case "alias":
      return {}; // resolved before
  }
}

/** Returns the text of a prompt with references to its mentions, or undefined if it has other blocks. */
function textOf(blocks: readonly ContentBlock[]): string | undefined {
  if (blocks[0]?.type !== "text") return undefined;
  return blocks.every(({ type }) => type === "text" || MENTIONS.has(type))
    ? referenceText(blocks)
    : undefined;
}

/** Editors send a mention, such as `@file`, as a block of its own. */
const MENTIONS: ReadonlySet<string> = new Set(["resource_link", "resource"]);

async function find({ connection, session }: DispatchCall, text: string): Promise<Command | undefined> {
  const parsed = parseCommand(text);
  if (!parsed) return undefined;
  const { commands } = await connection.deps();
  try {
    return await commands.resolve(parsed.name, session.seed.cwd);
  } catch (error) {
    if (error instanceof ServiceError && error.code === "unknown_command") return undefined;
    throw error;
  }
}

/** Formats output of several lines as code, which keeps its columns. */
function message(output: string, nowMs: number): SessionUpdate {
  const text = bounded(output);
  return {
    sessionUpdate: "agent_message_chunk",
    messageId: createId("msg", nowMs),
    content: { type: "text", text: text.includes("\n") ? fenced(text) : text },
  };
}

async function send({ client }: AcpConnection, { id }: AcpSession, update: SessionUpdate): Promise<void> {
  await client.notify("session/update", { sessionId: id, update });
}

function cancelled(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
}

/** What to do in an editor instead of commands that editors replace. */
const EDITOR_HINTS: ReadonlyMap<string, string> = new Map([
  ["new", "Start a new session in your editor."],
  ["resume", "Select a session from the list in your editor."],
  ["background", "Start another session in your editor. Sessions run in parallel."],
]);

/** Returns what to do in an editor instead, or undefined if the command works there. */
function editorHint({ name, category }: Command): string | undefined {
  return category === "Your own" || category === "Skills" ? undefined : EDITOR_HINTS.get(name);
}

/** The commands that were last sent for each open session. */
const announced = new WeakMap<AcpSession, string>();

/** Sends the commands of the session. */
export async function announceCommands(connection: AcpConnection, session: AcpSession): Promise<void> {
  await announce(connection, session, await available(connection, session.seed.cwd));
}

/** Sends the commands of each session if they have changed. Never throws: the next call finds the same changes. */
async function announceChanges(connection: AcpConnection): Promise<void> {
  // Listing reads files of the folder, and most sessions share one.
  const byFolder = new Map<string, AvailableCommand[] | undefined>();
  for (const session of connection.sessions) {
    if (!announced.has(session)) continue;
    const { cwd } = session.seed;
    if (!byFolder.has(cwd)) byFolder.set(cwd, await available(connection, cwd).catch(() => undefined));
    const commands = byFolder.get(cwd);
    if (!commands || announced.get(session) === JSON.stringify(commands)) continue;
    await announce(connection, session, commands).catch(() => {});
  }
}

async function announce(
  { client }: AcpConnection,
  session: AcpSession,
  availableCommands: AvailableCommand[],
): Promise<void> {
  if (session.signal.aborted) return;
  announced.set(session, JSON.stringify(availableCommands));
  const update = { sessionUpdate: "available_commands_update" as const, availableCommands };
  await client.notify("session/update", { sessionId: session.id, update });
}

async function available(connection: AcpConnection, cwd: string): Promise<AvailableCommand[]> {
  const { commands } = await connection.deps();
  const all = await commands.list(cwd);
  return all
    .filter((command) => editorHint(command) === undefined)
    .map(({ name, description, hint }) => ({
      name,
      description,
      ...(hint === undefined ? {} : { input: { hint } }),
    }));
}
