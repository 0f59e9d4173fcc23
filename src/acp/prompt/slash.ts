/** Slash commands that come as prompts. */
import type { ContentBlock, PromptResponse, SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import { parseCommand, type Command, type Directive } from "../../agent/commands/command.ts";
import type { UserMessage } from "../../agent/message.ts";
import { saveSession } from "../../agent/session/sessions.ts";
import { ServiceError } from "../../base/errors.ts";
import { createId } from "../../base/ids.ts";
import { announceChanges, editorsWay } from "./commands.ts";
import type { AcpConnection } from "../wire/connection.ts";
import type { AcpSession } from "../session/session.ts";
import { bounded, fenced } from "../tools/tool-text.ts";
import { announceApprovals } from "../session/watch.ts";

export interface DispatchCall {
  readonly connection: AcpConnection;
  readonly session: AcpSession;
  readonly blocks: readonly ContentBlock[];
  /** Aborts when the prompt is cancelled. */
  readonly signal: AbortSignal;
}

/** What became of a command: it is answered, or the model is to be asked something. */
export type Dispatched =
  | { readonly type: "answer"; readonly response: PromptResponse }
  | { readonly type: "prompt"; readonly message: UserMessage };

const MAX_ALIASES = 8;

/**
 * Runs the command that a prompt of nothing but text begins with. Undefined: there is no such command, and the prompt
 * is one for the model. What the command says is told before this resolves; it does not wait for a turn at work.
 */
export async function dispatchCommand(call: DispatchCall): Promise<Dispatched | undefined> {
  const { connection, session, signal } = call;
  const text = textOf(call.blocks);
  const isCommand = text !== undefined && (await find(call, text)) !== undefined;
  const outcome = isCommand ? await Promise.race([run(call, text), cancelled(signal)]) : undefined;
  if (signal.aborted) return { type: "answer", response: { stopReason: "cancelled" } };
  // A command, or what the model did since, may have changed which commands there are.
  void announceChanges(connection);
  if (isCommand) void announceApprovals(connection).catch(() => {});
  if (!outcome) return undefined;
  const { says, prompt, notice } = outcome;
  if (says !== undefined && says !== "")
    await tell(connection, session, message(says, (await connection.deps()).clock.now()));
  if (notice !== undefined && connection.offers.notices) {
    await tell(connection, session, { sessionUpdate: "notice", severity: "info", title: notice });
  }
  return prompt === undefined
    ? { type: "answer", response: { stopReason: "end_turn" } }
    : { type: "prompt", message: { role: "user", text: prompt } };
}

/** What a command came to. */
interface Outcome {
  /** To the user. */
  readonly says?: string;
  /** To the model. */
  readonly prompt?: string;
  readonly notice?: string;
}

/** What goes wrong is said; ServiceError `session_not_found` only. */
async function run(call: DispatchCall, text: string): Promise<Outcome> {
  try {
    return outcomeOf(await follow(call, text));
  } catch (error) {
    if (error instanceof ServiceError && error.code !== "session_not_found") return { says: error.message };
    throw error;
  }
}

/** The directive of a command, or of the one that it stands for. */
async function follow(call: DispatchCall, typed: string): Promise<Directive> {
  const { connection, session, signal } = call;
  const { commands, agent, owner, store } = await connection.deps();
  const { id, seed } = session;
  let text = typed;
  for (let hop = 0; hop < MAX_ALIASES; hop++) {
    const command = await find(call, text);
    const way = command && editorsWay(command);
    if (way !== undefined) return { type: "exec", output: way };
    // Help needs no session; to all others it is there once they are about it.
    const isAbout = command !== undefined && command.category !== "Help";
    if (isAbout) await saveSession(store, { id, owner, seed });
    const about = isAbout ? { sessionId: id } : {};
    const done = await commands.dispatch(text, { agent, owner, signal, cwd: seed.cwd, ...about });
    if (done.type !== "alias") return done;
    text = done.target;
  }
  throw new ServiceError(
    "command_usage",
    `The command stands for another one, more than ${MAX_ALIASES} times.`,
  );
}

function outcomeOf(done: Directive): Outcome {
  switch (done.type) {
    case "exec": {
      const { output, sessionId } = done;
      // Only the editor itself can go on in another session.
      const where =
        sessionId === undefined ? "" : `\nOpen the session ${sessionId} in your editor to go on there.`;
      return { says: output + where };
    }
    case "prefill":
      // There is no way to put text where the user types.
      return { says: [done.notice, "The prompt was:", done.message].filter(Boolean).join("\n") };
    case "send":
      return { prompt: done.message, ...(done.notice === undefined ? {} : { notice: done.notice }) };
    case "skill":
      return { prompt: done.message };
    case "alias":
      return {}; // followed before
  }
}

/** Undefined for a prompt that holds more than text. */
function textOf(blocks: readonly ContentBlock[]): string | undefined {
  const texts = blocks.map((block) => (block.type === "text" ? block.text : undefined));
  return texts.includes(undefined) ? undefined : texts.join("\n\n");
}

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

/** Columns and lists keep their form only as code. */
function message(output: string, nowMs: number): SessionUpdate {
  const text = bounded(output);
  return {
    sessionUpdate: "agent_message_chunk",
    messageId: createId("msg", nowMs),
    content: { type: "text", text: text.includes("\n") ? fenced(text) : text },
  };
}

async function tell({ client }: AcpConnection, { id }: AcpSession, update: SessionUpdate): Promise<void> {
  await client.notify("session/update", { sessionId: id, update });
}

function cancelled(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
}
