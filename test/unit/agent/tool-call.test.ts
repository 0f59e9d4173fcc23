import assert from "node:assert/strict";
import { test } from "node:test";
import { registerSecret } from "../../../src/base/observe.ts";
import { ToolError } from "../../../src/agent/tool/tool.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { WatchedClock } from "../../harness/watched-clock.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import { callsOnce, createTestAgent, testTool } from "../../harness/agent.ts";

const DANGEROUS = "rm -rf build";
const ok = testTool(async ({ command }) => `ran ${command}`);

test("the start, progress and end of an allowed call are events", async () => {
  const tool = testTool(async ({ command }, { progress }) => {
    progress("half ");
    progress("way");
    return `ran ${command}`;
  });
  await using agent = await createTestAgent({ tools: [tool], script: callsOnce("ls") });
  const { runId } = await agent.submit("go");
  const events = await agent.events(runId);
  const tools = events.filter(({ type }) => type.startsWith("tool."));
  assert.deepEqual(
    tools.map(({ type }) => type),
    ["tool.started", "tool.progress", "tool.completed"],
  );
  assert.equal(tools[0]?.data["preview"], "Run: ls");
  assert.deepEqual(tools[0]?.data["arguments"], { command: "ls" });
  assert.equal(tools[1]?.data["delta"], "half way");
  assert.equal(tools[2]?.data["status"], "ok");
  assert.equal(events.at(-1)?.data["output"], "ok: ran ls");
});

for (const [title, script, expected] of [
  [
    "an unknown tool",
    () => ({ calls: [{ tool: "nope", input: {} }] }),
    /No tool is named "nope"\. Tools: terminal\./,
  ],
  [
    "arguments that violate the schema",
    () => ({ calls: [{ tool: "terminal", input: { cmd: 1 } }] }),
    /command/,
  ],
  [
    "arguments that are not JSON",
    () => ({ calls: [{ tool: "terminal", input: {}, invalid: "not JSON" }] }),
    /not JSON/,
  ],
] as const) {
  test(`${title}: the model reads the problem`, async () => {
    await using agent = await createTestAgent({
      tools: [ok],
      script: (state) =>
        state.step === 0
          ? script()
          : { text: `${state.toolResults[0]?.status} ${state.toolResults[0]?.text}` },
    });
    const { runId } = await agent.submit("go");
    const output = (await agent.events(runId)).at(-1)?.data["output"] as string;
    assert.match(output, /^error /);
    assert.match(output, expected);
  });
}

test("the model reads a tool's own error; an unexpected one is logged and stays inside", async () => {
  const tool = testTool(async ({ command }) => {
    if (command === "mend") throw new ToolError("no such file, did you mean x?");
    throw new Error("stack with /internal/path");
  });
  await using agent = await createTestAgent({ tools: [tool], script: callsOnce("mend", "bug") });
  const { runId } = await agent.submit("go");
  const output = (await agent.events(runId)).at(-1)?.data["output"] as string;
  assert.match(output, /error: no such file, did you mean x\?/);
  assert.match(output, /failed inside the server/);
  assert.ok(!output.includes("/internal/path"));
  assert.ok(agent.logLines.some((line) => line.includes("/internal/path")));
});

test("without anyone to ask, a call that requires approval is denied at once with the reason and the alternative", async () => {
  const ran: string[] = [];
  const tool = testTool(async ({ command }) => (ran.push(command), "done"));
  await using agent = await createTestAgent({ tools: [tool], script: callsOnce(DANGEROUS) });
  const { runId } = await agent.submit("go");
  const output = (await agent.events(runId)).at(-1)?.data["output"] as string;
  assert.match(output, /denied: Denied: this requires approval .* no one can answer in this run/);
  assert.match(output, /`agentd chat`/);
  assert.deepEqual(ran, []);
});

test("an approval waits as a stored question; once allows the call", async () => {
  await using agent = await createTestAgent({ tools: [ok], script: callsOnce(DANGEROUS) });
  const { runId } = await agent.submit("go", { answerable: true });
  const request = await agent.event(runId, "approval.request");
  const questionId = request.data["request_id"] as string;
  assert.equal((await agent.run(runId)).status, "waiting_for_approval");
  assert.deepEqual(
    (await agent.deps.questions.open({ runId })).map(({ id }) => id),
    [questionId],
  );
  assert.equal(request.data["command"], DANGEROUS);
  await agent.deps.questions.answer(questionId, { owner: "tester", choice: "once", by: "test" });
  const events = await agent.events(runId);
  assert.equal(events.at(-1)?.data["output"], `ok: ran ${DANGEROUS}`);
  assert.deepEqual(events.find(({ type }) => type === "approval.responded")?.data, {
    request_id: questionId,
    choice: "once",
    by: "test",
  });
});

test("the model reads a denial; an answer counts once, from its owner, from the offered choices", async () => {
  await using agent = await createTestAgent({ tools: [ok], script: callsOnce(DANGEROUS) });
  const { runId } = await agent.submit("go", { answerable: true });
  const questionId = (await agent.event(runId, "approval.request")).data["request_id"] as string;
  const answer = (owner: string, choice: "once" | "always" | "deny") =>
    agent.deps.questions.answer(questionId, { owner, choice, by: "test" });
  const isCode = (code: string) => (error: unknown) => error instanceof ServiceError && error.code === code;
  await assert.rejects(answer("stranger", "once"), isCode("ask_not_found"));
  await assert.rejects(answer("tester", "maybe" as "once"), isCode("invalid_request"));
  const all = await Promise.allSettled([
    answer("tester", "deny"),
    answer("tester", "once"),
    answer("tester", "once"),
  ]);
  assert.equal(all.filter(({ status }) => status === "fulfilled").length, 1);
  for (const result of all)
    if (result.status === "rejected") assert.ok(isCode("ask_not_pending")(result.reason));
  const final = (await agent.events(runId)).at(-1);
  assert.equal(final?.type, "run.completed");
});

test("an approval for the session covers the same kind of call in the session, and not in another", async () => {
  await using agent = await createTestAgent({ tools: [ok], script: callsOnce("sudo ls") });
  const first = await agent.submit("go", { id: "s", answerable: true });
  const questionId = (await agent.event(first.runId, "approval.request")).data["request_id"] as string;
  await agent.deps.questions.answer(questionId, { owner: "tester", choice: "session", by: "test" });
  await agent.events(first.runId);
  const second = await agent.submit("again", { id: "s" });
  assert.match((await agent.events(second.runId)).at(-1)?.data["output"] as string, /^ok: /);
  const other = await agent.submit("again", { id: "t" });
  assert.match((await agent.events(other.runId)).at(-1)?.data["output"] as string, /^denied: /);
});

test("two approvals are open at once and are answered out of order", async () => {
  await using agent = await createTestAgent({ tools: [ok], script: callsOnce("rm -rf a", "rm -rf b") });
  const { runId } = await agent.submit("go", { answerable: true });
  const ids = new Map<string, string>();
  for await (const event of agent.follow(runId)) {
    if (event.type === "approval.request")
      ids.set(event.data["command"] as string, event.data["request_id"] as string);
    if (ids.size === 2) break;
  }
  const answer = (command: string, choice: "once" | "deny") =>
    agent.deps.questions.answer(ids.get(command)!, { owner: "tester", choice, by: "test" });
  await answer("rm -rf b", "once");
  assert.equal((await agent.run(runId)).status, "waiting_for_approval");
  await answer("rm -rf a", "deny");
  const output = (await agent.events(runId)).at(-1)?.data["output"];
  assert.equal(output, "denied: Denied by the user.\nok: ran rm -rf b");
});

test("an approval that is not answered in time expires as denied, and the run continues", async () => {
  const clock = new WatchedClock();
  await using agent = await createTestAgent({
    clock,
    tools: [ok],
    script: callsOnce(DANGEROUS),
    settings: { questionTimeouts: { approvalMs: 5_000, clarifyMs: 0, passwordMs: 0 } },
  });
  const { runId } = await agent.submit("go", { answerable: true });
  const request = await agent.event(runId, "approval.request");
  assert.equal(request.data["expires_at"], (clock.now() + 5_000) / 1000);
  const events = await clock.tickUntil(agent.events(runId), 5_000);
  assert.equal(events.find(({ type }) => type === "approval.expired")?.data["reason"], "timeout");
  assert.match(events.at(-1)?.data["output"] as string, /no answer came in time/);
  assert.equal(events.find(({ type }) => type === "tool.completed")?.data["code"], "approval_expired");
});

test("stopping a run closes its open question and ends the run", async () => {
  await using agent = await createTestAgent({ tools: [ok], script: callsOnce(DANGEROUS) });
  const { runId } = await agent.submit("go", { answerable: true });
  await agent.event(runId, "approval.request");
  await agent.runs.stop(runId, "enough");
  const events = await agent.events(runId);
  assert.equal(events.find(({ type }) => type === "approval.expired")?.data["reason"], "cancelled");
  assert.equal(events.at(-1)?.type, "run.cancelled");
  assert.deepEqual(await agent.deps.questions.open({ runId }), []);
});

test("an answer from another process reaches the waiting run", async () => {
  await using agent = await createTestAgent({ tools: [ok], script: callsOnce(DANGEROUS) });
  await using other = await createTestAgent({ database: agent.databaseUrl });
  const { runId } = await agent.submit("go", { answerable: true });
  const questionId = (await other.event(runId, "approval.request")).data["request_id"] as string;
  await other.deps.questions.answer(questionId, { owner: "tester", choice: "once", by: "elsewhere" });
  assert.equal((await agent.events(runId)).at(-1)?.type, "run.completed");
});

test("stopping a run stops its tool", async () => {
  const tool = testTool(
    (_input, { signal }) =>
      new Promise((_resolve, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
      ),
  );
  await using agent = await createTestAgent({ tools: [tool], script: callsOnce("sleep") });
  const { runId } = await agent.submit("go");
  await agent.event(runId, "tool.started");
  await agent.runs.stop(runId, "enough");
  const events = await agent.events(runId);
  const end = events.find(({ type }) => type === "tool.completed")?.data;
  assert.deepEqual([end?.["status"], end?.["code"]], ["aborted", "cancelled"]);
  assert.equal(events.at(-1)?.type, "run.cancelled");
});

test("a known secret in a tool's output, progress, arguments or question is redacted", async () => {
  const canary = "canary-4f9b2c7d1e";
  registerSecret(canary);
  const tool = testTool(async (_input, { progress }) => {
    progress(`live ${canary}`);
    return `result ${canary}`;
  });
  await using agent = await createTestAgent({
    tools: [tool],
    script: callsOnce(`echo ${canary}`, `rm -rf ${canary}`),
  });
  const { runId } = await agent.submit("go", { answerable: true });
  const questionId = (await agent.event(runId, "approval.request")).data["request_id"] as string;
  await agent.deps.questions.answer(questionId, { owner: "tester", choice: "once", by: "test" });
  await agent.events(runId);
  for (const table of ["events", "questions", "runs"] as const) {
    const rows = JSON.stringify(await agent.store.read.selectFrom(table).selectAll().execute());
    assert.ok(!rows.includes(canary), `${table} holds the secret`);
  }
  const tools = await agent.store.read
    .selectFrom("messages")
    .select("content")
    .where("role", "=", "tool")
    .execute();
  assert.ok(!JSON.stringify(tools).includes(canary));
});

test("a secret that live output splits into pieces is redacted, even at the call's end", async () => {
  const canary = "canary-split-8c1d44e0";
  registerSecret(canary);
  const tool = testTool(async (_input, { progress }) => {
    for (const letter of `<${canary}> ok\n${canary}`) progress(letter);
    return "done";
  });
  await using agent = await createTestAgent({ tools: [tool], script: callsOnce("show") });
  const { runId } = await agent.submit("go");
  const live = (await agent.events(runId))
    .filter(({ type }) => type === "tool.progress")
    .map(({ data }) => data["delta"] as string);
  assert.equal(live.join(""), "<[redacted]> ok\n[redacted]");
});

test("live output beyond its limit is dropped; the result still arrives", async () => {
  const tool = testTool(async (_input, { progress }) => {
    for (let i = 0; i < 100; i++) progress("x".repeat(10_000));
    return "the result";
  });
  await using agent = await createTestAgent({ tools: [tool], script: callsOnce("flood") });
  const { runId } = await agent.submit("go");
  const events = await agent.events(runId);
  const live = events
    .filter(({ type }) => type === "tool.progress")
    .map(({ data }) => data["delta"] as string);
  assert.equal(live.join("").length, 262_144);
  assert.equal(events.at(-1)?.data["output"], "ok: the result");
});

test("a call whose intent cannot be determined is started and ended, and the model reads why", async () => {
  const tool = {
    ...ok,
    inspect: () => {
      throw new ToolError("the path holds a NUL");
    },
  };
  await using agent = await createTestAgent({ tools: [tool], script: callsOnce("ls") });
  const { runId } = await agent.submit("go");
  const events = await agent.events(runId);
  const tools = events.map(({ type }) => type).filter((type) => type.startsWith("tool."));
  assert.deepEqual(tools, ["tool.started", "tool.completed"]);
  assert.equal(events.at(-1)?.data["output"], "error: the path holds a NUL");
});

test("a tool that ignores an abort is abandoned, and the run ends", async () => {
  const clock = new FakeClock();
  const began = Promise.withResolvers<void>();
  await using agent = await createTestAgent({
    clock,
    tools: [testTool(() => (began.resolve(), new Promise(() => {})))],
    script: callsOnce("ls"),
  });
  const { runId } = await agent.submit("go");
  await began.promise;
  await agent.runs.stop(runId, "enough");
  clock.tick(10_000);
  const events = await agent.events(runId);
  const end = events.find(({ type }) => type === "tool.completed")?.data;
  assert.deepEqual([end?.["status"], end?.["code"]], ["aborted", "cancelled"]);
  assert.equal(events.at(-1)?.type, "run.cancelled");
});

test("endless output of a tool is cut in the middle before the model reads it", async () => {
  await using agent = await createTestAgent({
    tools: [testTool(async () => `start${"x".repeat(2_000_000)}end`)],
    script: ({ step, toolResults }) =>
      step === 0
        ? { calls: [{ tool: "terminal", input: { command: "ls" } }] }
        : { text: toolResults[0]?.text ?? "" },
  });
  const { runId } = await agent.submit("go");
  const text = String((await agent.events(runId)).at(-1)?.data["output"]);
  assert.ok(text.length < 401_000);
  assert.match(text, /^start[\s\S]*characters omitted[\s\S]*end$/);
});

test("a call reports before it runs whether it waits for approval, and what it would change", async () => {
  const change = { path: "/project/a", old_text: null, new_text: "a", diff: "" };
  const tool = {
    ...ok,
    preview: async ({ command }: { readonly command: string }) => {
      if (command === "ls") throw new ToolError("cannot be told");
      return [change];
    },
  };
  for (const [command, waits, changes] of [
    [DANGEROUS, true, [change]],
    ["mkdir a", undefined, [change]],
    ["ls", undefined, undefined],
  ] as const) {
    await using agent = await createTestAgent({ tools: [tool], script: callsOnce(command) });
    const { runId } = await agent.submit("go", { answerable: true });
    if (waits) {
      const { data } = await agent.event(runId, "approval.request");
      await agent.deps.questions.answer(String(data["request_id"]), {
        owner: "tester",
        choice: "deny",
        by: "test",
      });
    }
    const started = (await agent.events(runId)).find(({ type }) => type === "tool.started");
    assert.equal(started?.data["waits"], waits);
    assert.deepEqual(started?.data["changes"], changes);
  }
});

test("calls made together start in the order of the model, however long each inspection takes", async () => {
  const shown = Promise.withResolvers<void>();
  const tool = {
    ...testTool(async ({ command }) => `ran ${command}`),
    preview: async ({ command }: { readonly command: string }) => {
      if (command === "mkdir a") await shown.promise;
      else shown.resolve();
      return [{ path: "/project/a", diff: "" }];
    },
  };
  const commands = ["mkdir a", "nope", "mkdir b"];
  const calls = commands.map((command) => ({
    tool: command === "nope" ? "nope" : "terminal",
    input: { command },
  }));
  await using agent = await createTestAgent({
    tools: [tool],
    script: ({ step }) => (step === 0 ? { calls } : { text: "done" }),
  });
  const { runId } = await agent.submit("go");
  const started = (await agent.events(runId)).filter(({ type }) => type === "tool.started");
  assert.deepEqual(
    started.map(({ data }) => (data["arguments"] as { readonly command: string }).command),
    commands,
  );
});
