/** Turns that ask questions, for the scenarios about answers. */
import type { ScriptStep } from "../../../src/agent/engines/scripted.ts";
import type { RpcHost } from "../../harness/rpc.ts";
import { openSession, type Probe } from "./scenario.ts";

/** Calls `probe` with each command at once, and says what came back. */
export const calls =
  (...commands: readonly string[]) =>
  ({
    step,
    toolResults,
  }: {
    step: number;
    toolResults: readonly { status: string; text: string }[];
  }): ScriptStep =>
    step === 0
      ? { calls: commands.map((command) => ({ tool: "probe", input: { command } })) }
      : { text: toolResults.map(({ status, text }) => `${status}: ${text}`).join("\n") };

/** Asks what the command names, and answers with what it learned. */
export const questions: Probe = async ({ command }, { questions, variables }) => {
  switch (command) {
    case "echo clarify": {
      const answers = await questions.clarify([
        { id: "a", question: "Which one?", choices: ["red", "blue"], multi_select: false },
        { id: "b", question: "How many?", choices: null, multi_select: false },
      ]);
      return JSON.stringify(answers);
    }
    case "echo sudo":
      return (await questions.sudo("apt-get update")) === "hunter2-canary" ? "it is right" : "nothing";
    case "echo secret": {
      const how = await questions.secret({ prompt: "The key of the weather service", envVar: "WEATHER_KEY" });
      return `${how}: ${variables.has("WEATHER_KEY") ? "kept" : "none"}`;
    }
    default:
      return command;
  }
};

export async function ask(host: RpcHost): Promise<string> {
  const id = await openSession(host);
  await host.result("prompt.submit", { session_id: id, text: "go" });
  return id;
}

export const said = async (host: RpcHost): Promise<string> =>
  (await host.event("message.complete")).payload.text;
