/** What the examples of all SDKs run against. */
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { testTool } from "../../harness/agent.ts";
import { startTestService, type TestService } from "../../harness/service.ts";

/** The model cleans a folder, which needs approval, and has one answer to everything else. */
const script: Script = ({ user, step, toolResults }) => {
  if (!user.startsWith("Clean")) return { text: "the answer" };
  if (step === 0) return { calls: [{ tool: "terminal", input: { command: "rm -rf build" } }] };
  return { text: toolResults.map(({ status, text }) => `${status}: ${text}`).join() };
};

export function startExampleService(): Promise<TestService> {
  return startTestService({ script, tools: [testTool(() => Promise.resolve("it ran"))] });
}
