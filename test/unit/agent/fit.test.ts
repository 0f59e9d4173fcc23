import assert from "node:assert/strict";
import { test } from "node:test";
import { fitTools } from "../../../src/agent/run/prompt.ts";
import { defineTool, type Tool } from "../../../src/agent/tool/tool.ts";
import type { ScriptState } from "../../../src/agent/engines/scripted.ts";
import { createTestAgent } from "../../harness/agent.ts";

/** A tool whose description takes about this many tokens. */
function sized(name: string, tokens: number): Tool {
  return defineTool({
    name,
    toolset: "test",
    description: "x".repeat(tokens * 4 - name.length - 2),
    parameters: {},
    inspect: () => ({ kind: "tool", title: name, effect: "none" }),
    run: async () => "",
  });
}

const namesOf = (tools: readonly Tool[]) => tools.map(({ name }) => name);
const TOOLS = [
  sized("mcp_thing", 200),
  sized("web_fetch", 300),
  sized("terminal", 400),
  sized("cronjob", 900),
  sized("read_file", 300),
];

test("all tools are offered while their descriptions take at most a third of the context", () => {
  const fitted = fitTools(TOOLS, { contextTokens: 6_300, clientTools: [] });
  assert.deepEqual([fitted.tools, fitted.omitted], [TOOLS, []]);
});

test("a small context gets the tools that an agent needs most, in their order, and the rest is named", () => {
  const { tools, omitted } = fitTools(TOOLS, { contextTokens: 3_000, clientTools: [] });
  assert.deepEqual(namesOf(tools), ["web_fetch", "terminal", "read_file"]);
  assert.deepEqual(omitted, ["mcp_thing", "cronjob"]);
});

test("a tool that is too large gives its place to smaller ones", () => {
  const { tools } = fitTools(TOOLS, { contextTokens: 3_600, clientTools: [] });
  assert.deepEqual(namesOf(tools), ["mcp_thing", "web_fetch", "terminal", "read_file"]);
});

test("the tools of the client count, and are never left out", () => {
  const clientTools = [{ name: "theirs", description: "y".repeat(2_000), parameters: {} }];
  const { tools } = fitTools(TOOLS, { contextTokens: 3_000, clientTools });
  assert.deepEqual(namesOf(tools), ["terminal"]);
});

test("a context without space gets no tools", () => {
  assert.deepEqual(fitTools(TOOLS, { contextTokens: 10, clientTools: [] }).tools, []);
});

test("the model and people learn which tools a run does not have", async () => {
  const seen: ScriptState[] = [];
  await using agent = await createTestAgent({
    providers: [{ name: "here", type: "openai_compatible", models: ["small"], contextTokens: 3_000 }],
    tools: TOOLS,
    script: (state) => (seen.push(state), { text: "Done." }),
  });
  const { runId } = await agent.submit("hello", { id: "s" });
  const events = await agent.events(runId);
  assert.deepEqual(seen[0]?.tools, ["web_fetch", "terminal", "read_file"]);
  assert.match(
    seen[0]?.instructions ?? "",
    /not available: mcp_thing, cronjob\. If a task needs one, say so\./,
  );
  const notices = events
    .filter(({ type }) => type === "run.notice")
    .map(({ data }) => String(data["message"]));
  assert.equal(notices.length, 1);
  assert.match(notices[0] ?? "", /here:small has a context of 3000 tokens.*left out: mcp_thing, cronjob/);
  await agent.events((await agent.submit("more", { id: "s" })).runId);
  assert.deepEqual(seen[1]?.tools, seen[0]?.tools);
});
