import { textOf } from "../session/session.ts";
import type { RunUsage } from "../../../generated/http/client/types.gen.ts";
import { formatUsd } from "../usage/usage.ts";
import { shorten, createSessionId } from "../../base/text.ts";
import { isSummary, loadContext } from "../session/transcript.ts";
import type { Message } from "../engine.ts";
import { parseModel } from "../model.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import { type Agent, type Command, sessionOf, shown, usage } from "../agent.ts";
import { estimateTokens } from "../engines/turn.ts";

const SHOWN_MESSAGES = 20;
const SHOWN_CHARACTERS = 200;
const LISTED_SESSIONS = 20;

/** Commands for sessions. */
export const sessionCommands: readonly Command[] = [
  {
    name: "new",
    description: "Start a new session",
    category: "Session",
    run: async ({ agent }) => {
      const sessionId = createSessionId(agent.deps.clock.now());
      return { type: "exec", output: "Started a new session.", sessionId };
    },
  },
  {
    name: "reset",
    aliases: ["clear"],
    description: "Clear the agent's context; the transcript stays",
    category: "Session",
    run: async (call) => {
      await call.agent.reset(sessionOf(call, "reset"), call.owner);
      return shown("The context is empty. The transcript keeps the earlier messages.");
    },
  },
  {
    name: "resume",
    description: "Resume a saved session, or list them",
    category: "Session",
    hint: "[id or title]",
    run: async ({ agent, owner, args }) => {
      if (args !== "") {
        const { id, title } = await agent.sessions.find(args, owner);
        return { type: "exec", output: `Resumed ${title ?? id}.`, sessionId: id };
      }
      const { sessions } = await agent.sessions.list({ owner, limit: LISTED_SESSIONS });
      const lines = sessions.map(({ id, title, preview }) => `${id}  ${title ?? preview}`);
      return shown(lines.length === 0 ? "No sessions are saved." : lines.join("\n"));
    },
  },
  {
    name: "branch",
    aliases: ["fork"],
    description: "Continue in a copy of the conversation",
    category: "Session",
    hint: "[title]",
    run: async (call) => {
      const title = call.args === "" ? {} : { title: call.args };
      const row = await call.agent.sessions.branch(sessionOf(call, "branch"), call.owner, title);
      return { type: "exec", output: `Branched into ${row.title ?? row.id}.`, sessionId: row.id };
    },
  },
  {
    name: "title",
    aliases: ["rename"],
    description: "Show or set the title of the session",
    category: "Session",
    hint: "[title]",
    run: async (call) => {
      const id = sessionOf(call, "title");
      if (call.args !== "")
        return shown(`Title: ${await call.agent.sessions.rename(id, call.owner, call.args)}`);
      const { title } = await call.agent.sessions.get(id, call.owner);
      return shown(title === null ? "The session has no title yet." : `Title: ${title}`);
    },
  },
  {
    name: "status",
    description: "Show the status of the session",
    category: "Session",
    run: async (call) => {
      const status = await call.agent.status(sessionOf(call, "status"), call.owner);
      const { session } = status;
      return shown(
        [
          `Session   ${session.id}`,
          `Title     ${session.title ?? "(none)"}`,
          `Model     ${status.model}${status.reasoningEffort === undefined ? "" : ` (effort ${status.reasoningEffort})`}`,
          `Directory ${status.cwd}`,
          `State     ${status.isBusy ? "running" : "idle"}, ${status.queueLength} queued, ${status.openQuestions} open questions`,
          `Mode      ${status.mode ?? "not set, as configured"}`,
          `Approvals ${status.yolo ? "off (yolo)" : call.agent.deps.settings.policyMode}`,
          `Messages  ${session.last_message}`,
          `Tokens    ${status.usage?.total_tokens ?? 0}`,
          `Created   ${new Date(session.created_at).toISOString()}`,
          `Active    ${new Date(session.updated_at).toISOString()}`,
        ].join("\n"),
      );
    },
  },
  {
    name: "usage",
    description: "Show the tokens and the cost of the session",
    category: "Session",
    run: async (call) => {
      const used = (await call.agent.status(sessionOf(call, "usage"), call.owner)).usage;
      if (!used) return shown("No tokens were used yet.");
      return shown(
        [
          `Input     ${used.input_tokens} tokens (${used.cached_input_tokens} from cache)`,
          `Output    ${used.output_tokens} tokens (${used.reasoning_tokens} of them reasoning)`,
          `Calls     ${used.model_calls} model, ${used.tool_calls} tool`,
          `Cost      ${costText(used)}`,
        ].join("\n"),
      );
    },
  },
  {
    name: "context",
    description: "Show what fills the model's context",
    category: "Session",
    run: async (call) => {
      const { agent, owner } = call;
      const { session, model, cwd } = await agent.status(sessionOf(call, "context"), owner);
      const [shares, { used, compressions }] = await Promise.all([
        sharesOf(agent, session, cwd),
        agent.contextUse(session),
      ]);
      const max = agent.deps.models.contextTokensOf(parseModel(model));
      const estimate = shares.reduce((sum, { tokens }) => sum + tokens, 0);
      const { threshold } = agent.deps.settings.compression;
      return shown(
        [
          `Context    ${filled(Math.max(used, estimate), max)}`,
          `Model      ${model}`,
          `Compressed ${compressions} times${threshold === undefined ? "" : `, automatically above ${Math.floor(max * threshold)} tokens`}`,
          "About:",
          ...shares.map(({ name, tokens }) => `  ${name.padEnd(14)}${tokens} tokens`),
        ].join("\n"),
      );
    },
  },
  {
    name: "history",
    description: "Show the last messages",
    category: "Session",
    hint: "[n]",
    run: async (call) => {
      const id = sessionOf(call, "history");
      const limit = call.args === "" ? SHOWN_MESSAGES : Number(call.args);
      if (!Number.isInteger(limit) || limit < 1 || limit > 500) throw usage({ name: "history", hint: "[n]" });
      await call.agent.sessions.get(id, call.owner);
      const { messages } = await call.agent.sessions.reads.transcript(id, { limit });
      const lines = messages
        .filter(({ message }) => message.role !== "tool" && textOf(message) !== "")
        .map(({ message }) => `${message.role}: ${oneLine(textOf(message))}`);
      return shown(lines.length === 0 ? "The session has no messages yet." : lines.join("\n"));
    },
  },
];

function oneLine(text: string): string {
  return shorten(text.replace(/\s+/g, " ").trim(), SHOWN_CHARACTERS);
}

const CHARACTERS_A_TOKEN = 4;

interface Share {
  readonly name: string;
  /** An estimate. */
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

/** Returns the share of a message. Files and images count with their prompt, tool calls with their answer. */
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

function costText({ cost_usd: cost, unpriced_tokens: unpriced }: RunUsage): string {
  if (cost === null) return "unknown: the model has no known price";
  return unpriced > 0 ? `${formatUsd(cost)}, without ${unpriced} tokens of unknown price` : formatUsd(cost);
}
