import { parseModel } from "../model.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { Agent } from "../agent.ts";
import { sessionOf, shown, type Command } from "./command.ts";
import { contextUse } from "../usage/context-use.ts";
import { estimateTokens } from "../engines/context-size.ts";
import { isSummary, loadContext } from "../session/transcript.ts";
import type { Message } from "../message.ts";

const CHARACTERS_A_TOKEN = 4;

/** What fills the context of a session's next turn. */
export const contextCommand: Command = {
  name: "context",
  description: "Show what fills the context of the model",
  category: "Session",
  run: async (call) => {
    const { agent, owner } = call;
    const { session, model, cwd } = await agent.status(sessionOf(call, "context"), owner);
    const [shares, { used, compressions }] = await Promise.all([
      sharesOf(agent, session, cwd),
      contextUse(agent.deps, session),
    ]);
    const max = agent.deps.models.contextTokensOf(parseModel(model));
    const estimate = shares.reduce((sum, { tokens }) => sum + tokens, 0);
    const { threshold } = agent.deps.settings.compression;
    return shown(
      [
        `Context    ${filled(Math.max(used, estimate), max)}`,
        `Model      ${model}`,
        `Compressed ${compressions} times${threshold === undefined ? "" : `, by itself from ${Math.floor(max * threshold)} tokens on`}`,
        "About:",
        ...shares.map(({ name, tokens }) => `  ${name.padEnd(14)}${tokens} tokens`),
      ].join("\n"),
    );
  },
};

interface Share {
  readonly name: string;
  /** About. */
  readonly tokens: number;
}

async function sharesOf(agent: Agent, session: SessionRow, cwd: string): Promise<readonly Share[]> {
  const { deps } = agent;
  const instructions = [deps.settings.instructions, ...(await deps.briefing(cwd))];
  const tools = deps.clients.of(session.id).tools(deps.tools());
  const specs = tools.map(({ name, description, parameters }) => ({ name, description, parameters }));
  const messages = (await loadContext(deps.store, session)).map(({ message }) => message);
  const groups = Map.groupBy(messages, shareOf);
  return [
    { name: "Instructions", tokens: tokensIn(instructions.join("\n\n")) },
    { name: `Tools (${tools.length})`, tokens: tokensIn(JSON.stringify(specs)) },
    ...MESSAGE_SHARES.map((name) => ({ name, tokens: estimateTokens(groups.get(name) ?? []) })),
  ];
}

const MESSAGE_SHARES = ["Summary", "Prompts", "Answers", "Tool results"] as const;

/** Files and images count with the prompt that they came with, calls of tools with the answer that made them. */
function shareOf(message: Message): (typeof MESSAGE_SHARES)[number] {
  if (isSummary(message)) return "Summary";
  if (message.role === "tool") return "Tool results";
  return message.role === "assistant" ? "Answers" : "Prompts";
}

function tokensIn(text: string): number {
  return Math.ceil(text.length / CHARACTERS_A_TOKEN);
}

function filled(used: number, max: number): string {
  const percent = max > 0 ? Math.min(100, Math.round((used / max) * 1_000) / 10) : 100;
  return `${used} of ${max} tokens (${percent} %)`;
}
