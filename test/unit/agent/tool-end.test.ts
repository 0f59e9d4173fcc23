/** Why a tool call failed, as a code in its event and in the transcript. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { saveSession } from "../../../src/agent/session/sessions.ts";
import { ToolError, type ToolIntent } from "../../../src/agent/tool/tool.ts";
import { callsOnce, createTestAgent, testTool, type TestAgent } from "../../harness/agent.ts";

const DANGEROUS = "rm -rf build";
const ok = testTool(async ({ command }) => `ran ${command}`);

/** The end of a run's only call, in the journal and in the transcript. */
async function endOf(agent: TestAgent, runId: string) {
  const events = await agent.events(runId);
  const { status, code, reason } = events.find(({ type }) => type === "tool.completed")?.data ?? {};
  const kept = (await agent.transcript("s")).find(({ role }) => role === "tool");
  assert.ok(kept?.role === "tool");
  assert.deepEqual([kept.status, kept.code, kept.reason], [status, code, reason]);
  return [status, code, ...(reason === undefined ? [] : [reason])];
}

for (const [title, command, expected] of [
  ["a successful call, without a code", "ls", ["ok", undefined]],
  ["a call that the policy forbids", "rm -rf /", ["denied", "denied_by_policy"]],
  ["a call that cannot be approved", DANGEROUS, ["denied", "not_answerable"]],
  ["a tool that reports an error", "fail", ["error", "failed"]],
  ["a tool that timed out", "wait", ["error", "timed_out"]],
  ["a tool with a bug", "bug", ["error", "internal_error"]],
] as const) {
  test(`the end of a call has its code: ${title}`, async () => {
    const tool = testTool(async () => {
      if (command === "fail") throw new ToolError("no such file");
      if (command === "wait") throw new ToolError("no answer", { code: "timed_out" });
      if (command === "bug") throw new Error("a bug");
      return "done";
    });
    await using agent = await createTestAgent({ tools: [tool], script: callsOnce(command) });
    const { runId } = await agent.submit("go", { id: "s" });
    assert.deepEqual(await endOf(agent, runId), expected);
  });
}

test("the end of a call has a code: an unknown tool and wrong arguments are invalid", async () => {
  for (const call of [
    { tool: "nope", input: {} },
    { tool: "terminal", input: { cmd: 1 } },
    { tool: "terminal", input: {}, invalid: "not JSON" },
  ]) {
    const script: Script = ({ step }) => (step === 0 ? { calls: [call] } : { text: "done" });
    await using agent = await createTestAgent({ tools: [ok], script });
    const { runId } = await agent.submit("go", { id: "s" });
    assert.deepEqual(await endOf(agent, runId), ["error", "invalid"]);
  }
});

for (const [title, answer, expected] of [
  ["a denial", { choice: "deny", by: "test" }, ["denied", "denied_by_user"]],
  [
    "a denial with words",
    { choice: "deny", by: "test", reason: "keep it" },
    ["denied", "denied_by_user", "keep it"],
  ],
  [
    "a surface that cannot ask its user",
    { choice: "deny", by: "agentd", reason: "it cannot ask" },
    ["denied", "not_answerable", "it cannot ask"],
  ],
] as const) {
  test(`the end of a call has its code: ${title}`, async () => {
    await using agent = await createTestAgent({ tools: [ok], script: callsOnce(DANGEROUS) });
    const { runId } = await agent.submit("go", { id: "s", answerable: true });
    const { data } = await agent.event(runId, "approval.request");
    await agent.deps.questions.answer(String(data["request_id"]), { owner: "tester", ...answer });
    assert.deepEqual(await endOf(agent, runId), expected);
  });
}

test("a denial without anyone to ask names the setting that would allow the call", async () => {
  const file = { kind: "file", title: "Write" } as const;
  for (const [intent, way] of [
    [{ kind: "command", title: "Run", command: "sudo ls" }, /`approvals\.allow`/],
    [{ kind: "command", title: "Run", command: "cat .env" }, /where someone can answer/],
    [{ ...file, writes: ["/workspace/a"] }, /`\/mode accept_edits`/],
    [{ ...file, writes: ["/srv/a"] }, /where someone can answer/],
    [{ kind: "tool", title: "files: move" }, /where someone can answer/],
  ] as const satisfies readonly (readonly [ToolIntent, RegExp])[]) {
    const tool = { ...ok, inspect: () => intent };
    await using agent = await createTestAgent({ tools: [tool], script: callsOnce("x") });
    await saveSession(agent.store, {
      id: "s",
      owner: "tester",
      seed: { source: "test", settings: { mode: "ask" } },
    });
    const { runId } = await agent.submit("go", { id: "s" });
    const text = String((await agent.events(runId)).at(-1)?.data["output"]);
    assert.match(
      text,
      /^denied: Denied: this requires approval \(.+\), and no one can answer in this run\. /,
    );
    assert.match(text, way);
    assert.equal(/approvals\.allow/.test(text), way.source.includes("allow`"), text);
  }
});
