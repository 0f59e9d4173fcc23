import { ServiceError } from "../../base/errors.ts";
import { runningTurn } from "../run/run.ts";
import { sessionOf, shown, usage, type Command, type CommandCall } from "./command.ts";

/** Commands that say something to the agent, or take it back. */
export const conversationCommands: readonly Command[] = [
  {
    name: "retry",
    description: "Take the last prompt back and send it again",
    category: "Conversation",
    run: async (call) => {
      const { prompt } = await call.agent.sessions.undo(sessionOf(call, "retry"), call.owner);
      return { type: "send", message: prompt, notice: "Trying again." };
    },
  },
  {
    name: "undo",
    description: "Take back the last prompt, or the last n, with all that followed",
    category: "Conversation",
    hint: "[n]",
    run: async (call) => {
      const turns = call.args === "" ? 1 : Number(call.args);
      if (!Number.isInteger(turns) || turns < 1 || turns > 1000) throw usage({ name: "undo", hint: "[n]" });
      const { removed, prompt } = await call.agent.sessions.undo(sessionOf(call, "undo"), call.owner, turns);
      return { type: "prefill", message: prompt, notice: `${removed} messages were taken back.` };
    },
  },
  {
    name: "steer",
    description: "Tell the turn at work something, for its next step",
    category: "Conversation",
    hint: "<text>",
    run: async (call) => {
      if (call.args === "") throw usage({ name: "steer", hint: "<text>" });
      const runId = await runAtWork(call, sessionOf(call, "steer"));
      if (runId !== undefined && (await call.agent.runs.steer(runId, call.args))) {
        return shown("The agent gets it at its next step.");
      }
      const notice = "Nothing is at work; sent as a prompt.";
      return { type: "send", message: call.args, notice, whenBusy: "queue" };
    },
  },
  {
    name: "queue",
    aliases: ["q"],
    description: "Send a prompt that runs when the turn at work has ended",
    category: "Conversation",
    hint: "<text>",
    run: async (call) => {
      if (call.args === "") throw usage({ name: "queue", hint: "<text>" });
      return { type: "send", message: call.args, whenBusy: "queue" };
    },
  },
  {
    name: "background",
    aliases: ["bg"],
    description: "Run a prompt beside the conversation, without its history",
    category: "Conversation",
    hint: "<text>",
    run: async (call) => {
      if (call.args === "") throw usage({ name: "background", hint: "<text>" });
      const sessionId = sessionOf(call, "background");
      const { runId } = await call.agent.background(sessionId, call.owner, call.args);
      return shown(`Started in the background as ${runId}. You are told when it ends.`);
    },
  },
  {
    name: "stop",
    aliases: ["interrupt"],
    description: "Stop the turn at work, its tools and its sub-agents",
    category: "Conversation",
    run: async (call) => {
      const runId = await runAtWork(call, sessionOf(call, "stop"));
      if (runId === undefined || !(await call.agent.runs.stop(runId, "The user stopped it."))) {
        return shown("Nothing is at work.");
      }
      return shown("Stopping.");
    },
  },
  {
    name: "compress",
    aliases: ["compact"],
    description: "Replace the older part of the conversation by a summary",
    category: "Conversation",
    hint: "[what to keep above all]",
    run: async (call) => {
      const focus = call.args === "" ? {} : { focus: call.args };
      const signal = call.signal ? { signal: call.signal } : {};
      const done = await call.agent.compress(sessionOf(call, "compress"), call.owner, {
        ...focus,
        ...signal,
      });
      if (done.status === "noop") return shown(`Nothing was compressed. ${done.note ?? ""}`.trim());
      if (done.status === "failed")
        throw new ServiceError("provider_error", done.note ?? "The compression failed.");
      return shown(
        `Compressed: ${done.beforeMessages} messages to ${done.afterMessages}, about ${done.beforeTokens} tokens to ${done.afterTokens}.`,
      );
    },
  },
];

/** The turn at work in the session, in whatever process, if the session is the caller's. */
async function runAtWork({ agent, owner }: CommandCall, sessionId: string): Promise<string | undefined> {
  await agent.sessions.get(sessionId, owner);
  return agent.runs.runningIn(sessionId) ?? (await runningTurn(agent.deps.store, sessionId))?.runId;
}
