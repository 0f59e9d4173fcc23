import { shorten } from "../../base/text.ts";
import { textOf } from "../message.ts";
import { readTranscript } from "../session/transcript.ts";
import { createSessionId } from "../../base/ids.ts";
import { sessionOf, shown, usage, type Command } from "./command.ts";
import { contextCommand } from "./context.ts";

const SHOWN_MESSAGES = 20;
const SHOWN_CHARACTERS = 200;
const LISTED_SESSIONS = 20;

/** Commands about sessions. */
export const sessionCommands: readonly Command[] = [
  {
    name: "new",
    description: "Begin a new session",
    category: "Session",
    run: async ({ agent }) => {
      const sessionId = createSessionId(agent.deps.clock.now());
      return { type: "exec", output: "A new session.", sessionId };
    },
  },
  {
    name: "reset",
    aliases: ["clear"],
    description: "Let the agent forget the conversation; the transcript stays",
    category: "Session",
    run: async (call) => {
      await call.agent.reset(sessionOf(call, "reset"), call.owner);
      return shown("The agent starts afresh. What was said before stays in the transcript.");
    },
  },
  {
    name: "resume",
    description: "Go on with a saved session, or list them",
    category: "Session",
    hint: "[id or title]",
    run: async ({ agent, owner, args }) => {
      if (args !== "") {
        const { id, title } = await agent.sessions.find(args, owner);
        return { type: "exec", output: `Going on with ${title ?? id}.`, sessionId: id };
      }
      const { sessions } = await agent.sessions.list({ owner, limit: LISTED_SESSIONS });
      const lines = sessions.map(({ id, title, preview }) => `${id}  ${title ?? preview}`);
      return shown(lines.length === 0 ? "There are no saved sessions." : lines.join("\n"));
    },
  },
  {
    name: "branch",
    aliases: ["fork"],
    description: "Go on in a copy of the conversation",
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
    description: "Show how the session stands",
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
          `State     ${status.isBusy ? "at work" : "idle"}, ${status.queueLength} queued, ${status.openQuestions} open questions`,
          `Mode      ${status.mode ?? "none chosen, as configured"}`,
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
    description: "Show what the session used so far",
    category: "Session",
    run: async (call) => {
      const used = (await call.agent.status(sessionOf(call, "usage"), call.owner)).usage;
      if (!used) return shown("Nothing was used yet.");
      return shown(
        [
          `Input     ${used.input_tokens} tokens (${used.cached_input_tokens} from cache)`,
          `Output    ${used.output_tokens} tokens (${used.reasoning_tokens} of them reasoning)`,
          `Calls     ${used.model_calls} of models, ${used.tool_calls} of tools`,
        ].join("\n"),
      );
    },
  },
  contextCommand,
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
      const { messages } = await readTranscript(call.agent.deps.store, id, { limit });
      const lines = messages
        .filter(({ message }) => message.role !== "tool" && textOf(message) !== "")
        .map(({ message }) => `${message.role}: ${oneLine(textOf(message))}`);
      return shown(lines.length === 0 ? "Nothing was said yet." : lines.join("\n"));
    },
  },
];

function oneLine(text: string): string {
  return shorten(text.replace(/\s+/g, " ").trim(), SHOWN_CHARACTERS);
}
