import { ServiceError } from "../../base/errors.ts";
import { runningTurn } from "../run/run.ts";
import { sessionOf, shown, usage, type Command, type CommandCall } from "../agent.ts";

/** Commands that send a prompt, steer a run or undo prompts. */
export const conversationCommands: readonly Command[] = [
  {
    name: "retry",
    description: "Undo the last prompt and send it again",
    category: "Conversation",
    run: async (call) => {
      const { prompt } = await call.agent.sessions.undo(sessionOf(call, "retry"), call.owner);
      return { type: "send", message: prompt, notice: "Trying again." };
    },
  },
  {
    name: "undo",
    description: "Undo the last prompt, or the last n, with everything after it",
    category: "Conversation",
    hint: "[n]",
    run: async (call) => {
      const turns = call.args === "" ? 1 : Number(call.args);
      if (!Number.isInteger(turns) || turns < 1 || turns > 1000) throw usage({ name: "undo", hint: "[n]" });
      const { removed, prompt } = await call.agent.sessions.undo(sessionOf(call, "undo"), call.owner, turns);
      return { type: "prefill", message: prompt, notice: `Removed ${removed} messages.` };
    },
  },
  {
    name: "steer",
    description: "Send text to the current run, for its next step",
    category: "Conversation",
    hint: "<text>",
    run: async (call) => {
      if (call.args === "") throw usage({ name: "steer", hint: "<text>" });
      const runId = await runAtWork(call, sessionOf(call, "steer"));
      if (runId !== undefined && (await call.agent.runs.steer(runId, call.args))) {
        return shown("The agent gets the text at its next step.");
      }
      const notice = "No run is active; sent as a prompt.";
      return { type: "send", message: call.args, notice, whenBusy: "queue" };
    },
  },
  {
    name: "queue",
    aliases: ["q"],
    description: "Send a prompt that runs after the current run",
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
    description: "Run a prompt in the background, without the conversation's history",
    category: "Conversation",
    hint: "<text>",
    run: async (call) => {
      if (call.args === "") throw usage({ name: "background", hint: "<text>" });
      const sessionId = sessionOf(call, "background");
      const { runId } = await call.agent.background(sessionId, call.owner, call.args);
      return shown(`Started in the background as ${runId}. You get a notification when it finishes.`);
    },
  },
  {
    name: "stop",
    aliases: ["interrupt"],
    description: "Stop the current run, its tools and its sub-agents",
    category: "Conversation",
    run: async (call) => {
      const runId = await runAtWork(call, sessionOf(call, "stop"));
      if (runId === undefined || !(await call.agent.runs.stop(runId, "The user stopped it."))) {
        return shown("No run is active.");
      }
      return shown("Stopping.");
    },
  },
  {
    name: "compress",
    aliases: ["compact"],
    description: "Replace the older part of the conversation with a summary",
    category: "Conversation",
    hint: "[what to preserve]",
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

/** Returns the active run of the session in any process, if the caller owns the session. */
async function runAtWork({ agent, owner }: CommandCall, sessionId: string): Promise<string | undefined> {
  await agent.sessions.get(sessionId, owner);
  return agent.runs.runningIn(sessionId) ?? (await runningTurn(agent.deps.store, sessionId))?.runId;
}
