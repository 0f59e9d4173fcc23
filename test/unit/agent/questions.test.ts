import assert from "node:assert/strict";
import { test } from "node:test";
import type { Questions } from "../../../src/agent/question/questions.ts";
import { MAX_REPLY_CHARACTERS } from "../../../src/agent/question/question.ts";
import { createClarify } from "../../../src/agent/tools/clarify.ts";
import { createDelegateTask } from "../../../src/agent/tools/delegate-task.ts";
import type { ToolContext } from "../../../src/agent/tool/tool.ts";
import { WatchedClock } from "../../harness/watched-clock.ts";
import { forgetSecret, registerSecret } from "../../../src/base/observe.ts";
import { callsOnce, createTestAgent, TestVariables, testTool, type TestAgent } from "../../harness/agent.ts";

const OWNER = "tester";
type Reply = Parameters<Questions["answer"]>[1] extends infer A
  ? A extends unknown
    ? Omit<A, "owner" | "by">
    : never
  : never;

function answer(agent: TestAgent, questionId: string, reply: Reply, by = "test"): Promise<void> {
  return agent.deps.questions.answer(questionId, { owner: OWNER, by, ...reply } as never);
}

/** An agent whose tool asks once; the turn says what came of it. */
async function asking(
  ask: (context: ToolContext) => Promise<unknown>,
  more: Parameters<typeof createTestAgent>[0] = {},
): Promise<TestAgent> {
  return createTestAgent({
    tools: [testTool(async (_, context) => JSON.stringify((await ask(context)) ?? null))],
    script: callsOnce("ls"),
    ...more,
  });
}

async function request(agent: TestAgent, runId: string, type: string): Promise<string> {
  return String((await agent.event(runId, type)).data["request_id"]);
}

/** Everything that is kept or told anywhere. */
async function traces(agent: TestAgent): Promise<string> {
  const { read } = agent.store;
  const tables = ["questions", "events", "messages", "runs", "sessions", "grants"] as const;
  const rows = await Promise.all(tables.map((table) => read.selectFrom(table).selectAll().execute()));
  return JSON.stringify(rows) + agent.logLines.join("\n");
}

const twoQuestions = [
  { id: "q1", question: "Which?", choices: ["a", "b"], multi_select: false },
  { id: "q2", question: "Why?", choices: null, multi_select: false },
];

test("several questions are answered at once, by choice, in free words, or not at all", async () => {
  await using agent = await createTestAgent({
    tools: [createClarify()],
    script: ({ step, toolResults }) => {
      const questions = [
        { question: "Which?", choices: ["a", "b"], multi_select: true },
        { question: "Why?" },
        { question: "When?" },
      ];
      return step === 0
        ? { calls: [{ tool: "clarify", input: { questions } }] }
        : { text: toolResults[0]?.text ?? "" };
    },
  });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const questionId = await request(agent, runId, "clarify.request");
  assert.equal((await agent.run(runId)).status, "waiting_for_approval");
  await answer(agent, questionId, { answers: { q1: "b, and c", q2: "so\nthat" } });
  const events = await agent.events(runId);
  assert.equal(
    events.at(-1)?.data["output"],
    "Q: Which?\nA: b, and c\n\nQ: Why?\nA: so\nthat\n\nQ: When?\nA: (skipped: decide yourself)",
  );
  assert.equal(events.find(({ type }) => type === "clarify.responded")?.data["by"], "test");
});

test("a reply of another kind, to an unknown question or too long is refused, and the question stays open", async () => {
  await using agent = await asking(({ questions }) => questions.clarify(twoQuestions));
  const { runId, sessionId } = await agent.submit("go", { id: "s", answerable: true });
  const questionId = await request(agent, runId, "clarify.request");
  const bad: [Reply, string][] = [
    [{ answers: { q3: "x" } }, "answers"],
    [{ answers: { __proto__: null, constructor: "x" } as never }, "answers"],
    [{ answers: { q1: "x".repeat(MAX_REPLY_CHARACTERS + 1) } }, "answers.q1"],
    [{ choice: "once" }, "answers"],
    [{ password: "x" }, "answers"],
    [{ choice: "once", answers: { q1: "a" } } as never, "choice"],
  ];
  for (const [reply, param] of bad) {
    await assert.rejects(answer(agent, questionId, reply), { code: "invalid_request", param });
  }
  await assert.rejects(agent.deps.questions.answer(questionId, { owner: "stranger", by: "x", answers: {} }), {
    code: "ask_not_found",
  });
  await assert.rejects(answer(agent, "ask_unknown", { answers: {} }), { code: "ask_not_found" });
  assert.equal((await agent.deps.questions.open({ sessionId })).length, 1);
  await answer(agent, questionId, { answers: {} });
  assert.equal((await agent.events(runId)).at(-1)?.data["output"], "ok: {}");
});

test("the reason of a denial reaches the model and all followers, without secrets", async () => {
  const secret = "what-people-paste-0815";
  registerSecret(secret);
  try {
    await using agent = await createTestAgent({
      tools: [testTool(async () => "ran")],
      script: callsOnce("rm -rf x"),
    });
    const { runId } = await agent.submit("go", { id: "s", answerable: true });
    const questionId = await request(agent, runId, "approval.request");
    for (const reply of [
      { choice: "deny", reason: "x".repeat(1025) },
      { choice: "deny", answers: {} },
    ]) {
      await assert.rejects(answer(agent, questionId, reply as Reply), { code: "invalid_request" });
    }
    await answer(agent, questionId, { choice: "deny", reason: `it holds ${secret}` });
    const events = await agent.events(runId);
    const responded = events.find(({ type }) => type === "approval.responded");
    assert.equal(responded?.data["reason"], "it holds [redacted]");
    assert.equal(events.at(-1)?.data["output"], "denied: Denied by the user: it holds [redacted]");
    assert.ok(!(await traces(agent)).includes(secret));
  } finally {
    forgetSecret(secret);
  }
});

test("a reason is not an answer to a question that is not an approval", async () => {
  await using agent = await asking(({ questions }) => questions.clarify(twoQuestions));
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const questionId = await request(agent, runId, "clarify.request");
  const reply = { answers: {}, reason: "because" } as Reply;
  await assert.rejects(answer(agent, questionId, reply), { code: "invalid_request", param: "reason" });
});

test("a password reaches the asker and stands nowhere else", async () => {
  const password = "correct horse 77";
  const heard: unknown[] = [];
  await using agent = await asking(async ({ questions }) => {
    const got = await questions.sudo("sudo ls");
    heard.push(got);
    return `printed by the command: ${got}`;
  });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  await answer(agent, await request(agent, runId, "sudo.request"), { password });
  const events = await agent.events(runId);
  assert.deepEqual(heard, [password]);
  assert.equal(events.find(({ type }) => type === "sudo.responded")?.data["skipped"], false);
  assert.ok(!(await traces(agent)).includes(password));
});

test("an empty password refuses", async () => {
  await using agent = await asking(async ({ questions }) => [await questions.sudo("sudo ls")]);
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const questionId = await request(agent, runId, "sudo.request");
  for (const password of ["a\nb", "a\rb", "a\0b", "x".repeat(MAX_REPLY_CHARACTERS + 1)]) {
    await assert.rejects(answer(agent, questionId, { password }), {
      code: "invalid_request",
      param: "password",
    });
  }
  await answer(agent, questionId, { password: "" });
  const events = await agent.events(runId);
  assert.equal(events.find(({ type }) => type === "sudo.responded")?.data["skipped"], true);
  assert.equal(events.at(-1)?.data["output"], "ok: [null]");
});

test("a password is refused in a process that does not ask for it, and the question stays open", async () => {
  await using agent = await asking(async ({ questions }) => (await questions.sudo("sudo ls"))?.length);
  await using other = await createTestAgent({ database: agent.databaseUrl });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const questionId = await request(agent, runId, "sudo.request");
  await assert.rejects(answer(other, questionId, { password: "hunter22" }), { code: "ask_not_pending" });
  assert.equal((await other.deps.questions.open({ runId })).length, 1);
  await answer(agent, questionId, { password: "hunter22" });
  assert.equal((await agent.events(runId)).at(-1)?.data["output"], "ok: 8");
  assert.ok(!(await traces(agent)).includes("hunter22"));
});

test("a secret goes to the variables; the model and the events learn only that it is stored", async () => {
  const variables = new TestVariables();
  const ask = ({ questions }: ToolContext) => questions.secret({ prompt: "A key, please", envVar: "A_KEY" });
  await using agent = await asking(ask, { variables });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const questionId = await request(agent, runId, "secret.request");
  await assert.rejects(answer(agent, questionId, { value: "two\nlines" }), { code: "invalid_request" });
  assert.equal(variables.get("A_KEY"), undefined);
  await answer(agent, questionId, { value: "tok-93-banana" });
  const events = await agent.events(runId);
  assert.equal(variables.get("A_KEY"), "tok-93-banana");
  assert.equal(events.at(-1)?.data["output"], 'ok: "stored"');
  assert.ok(!(await traces(agent)).includes("banana"));
  const next = await agent.submit("go", { id: "s", answerable: true });
  await answer(agent, await request(agent, next.runId, "secret.request"), { value: "" });
  assert.equal((await agent.events(next.runId)).at(-1)?.data["output"], 'ok: "skipped"');
  assert.equal(variables.get("A_KEY"), "tok-93-banana");
});

test("a secret that cannot be stored fails the answer, and the question stays open", async () => {
  class Refusing extends TestVariables {
    full = true;
    override async set(name: string, value: string): Promise<void> {
      if (this.full) throw new Error("the disk is full");
      await super.set(name, value);
    }
  }
  const variables = new Refusing();
  const ask = ({ questions }: ToolContext) => questions.secret({ prompt: "A key", envVar: "A_KEY" });
  await using agent = await asking(ask, { variables });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const questionId = await request(agent, runId, "secret.request");
  await assert.rejects(answer(agent, questionId, { value: "peach-cobbler" }), /disk is full/);
  variables.full = false;
  await answer(agent, questionId, { value: "peach-cobbler" });
  assert.equal((await agent.events(runId)).at(-1)?.data["output"], 'ok: "stored"');
});

test("of five answers at once the first wins, and its secret is the one that is kept", async () => {
  const variables = new TestVariables();
  const ask = ({ questions }: ToolContext) => questions.secret({ prompt: "A key", envVar: "A_KEY" });
  await using agent = await asking(ask, { variables });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const questionId = await request(agent, runId, "secret.request");
  const five = [1, 2, 3, 4, 5];
  const ends = await Promise.allSettled(
    five.map((n) => answer(agent, questionId, { value: `walnut-${n}` }, `viewer ${n}`)),
  );
  const won = ends.findIndex(({ status }) => status === "fulfilled") + 1;
  assert.deepEqual(
    ends.flatMap((end) => (end.status === "rejected" ? [end.reason.code] : [])),
    Array.from({ length: 4 }, () => "ask_not_pending"),
  );
  const events = await agent.events(runId);
  const responded = events.filter(({ type }) => type === "secret.responded");
  assert.deepEqual(
    responded.map(({ data }) => data["by"]),
    [`viewer ${won}`],
  );
  assert.equal(variables.get("A_KEY"), `walnut-${won}`);
});

test("of five passwords at once the asker gets that of the answer that won", async () => {
  const heard: (string | undefined)[] = [];
  await using agent = await asking(async ({ questions }) => {
    heard.push(await questions.sudo("sudo ls"));
  });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const questionId = await request(agent, runId, "sudo.request");
  const passwords = ["pecan-1", "", "pecan-3", "pecan-4", "pecan-5"];
  const ends = await Promise.allSettled(passwords.map((password) => answer(agent, questionId, { password })));
  const won = ends.findIndex(({ status }) => status === "fulfilled");
  assert.equal(ends.filter(({ status }) => status === "fulfilled").length, 1);
  await agent.events(runId);
  assert.deepEqual(heard, [passwords[won] || undefined]);
});

test("answers from two processes at once: one wins, and both processes see the same", async () => {
  await using agent = await asking(({ questions }) => questions.clarify(twoQuestions));
  await using other = await createTestAgent({ database: agent.databaseUrl });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const questionId = await request(agent, runId, "clarify.request");
  const ends = await Promise.allSettled([
    answer(agent, questionId, { answers: { q1: "here" } }),
    answer(other, questionId, { answers: { q1: "there" } }),
  ]);
  assert.equal(ends.filter(({ status }) => status === "fulfilled").length, 1);
  const won = ends[0]?.status === "fulfilled" ? "here" : "there";
  assert.equal((await other.events(runId)).at(-1)?.data["output"], `ok: {"q1":"${won}"}`);
});

test("a question is closed when its time is over, to the millisecond, and the model reads what to do", async () => {
  const clock = new WatchedClock();
  await using agent = await asking(({ questions }) => questions.clarify(twoQuestions), {
    clock,
    settings: { questionTimeouts: { approvalMs: 0, clarifyMs: 5_000, passwordMs: 0 } },
  });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const asked = await agent.event(runId, "clarify.request");
  assert.equal(Number(asked.data["expires_at"]), clock.now() / 1000 + 5);
  await clock.wait(5_000);
  clock.tick(4_999);
  assert.equal((await agent.deps.questions.open({ runId })).length, 1);
  clock.tick(1);
  const events = await agent.events(runId);
  assert.equal(events.find(({ type }) => type === "clarify.expired")?.data["reason"], "timeout");
  assert.match(String(events.at(-1)?.data["output"]), /^error: The question was not answered in time/);
  await assert.rejects(answer(agent, String(asked.data["request_id"]), { answers: {} }), {
    code: "ask_not_pending",
  });
});

test("a sudo question without an answer in time yields no password and no error", async () => {
  const clock = new WatchedClock();
  await using agent = await asking(async ({ questions }) => [await questions.sudo("sudo ls")], {
    clock,
    settings: { questionTimeouts: { approvalMs: 0, clarifyMs: 0, passwordMs: 1_000 } },
  });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  await agent.event(runId, "sudo.request");
  const events = await clock.tickUntil(agent.events(runId), 1_000);
  assert.equal(events.at(-1)?.data["output"], "ok: [null]");
});

test("stopping the run closes its questions of every kind", async () => {
  await using agent = await asking(({ questions }) =>
    Promise.all([
      questions.clarify(twoQuestions),
      questions.sudo("sudo ls"),
      questions.secret({ prompt: "A key", envVar: "A_KEY" }),
    ]),
  );
  const { runId, sessionId } = await agent.submit("go", { id: "s", answerable: true });
  for (const kind of ["clarify", "sudo", "secret"]) await agent.event(runId, `${kind}.request`);
  const open = await agent.deps.questions.open({ sessionId });
  assert.deepEqual(open.map(({ kind }) => kind).toSorted(), ["clarify", "secret", "sudo"]);
  assert.deepEqual(await agent.deps.questions.open({ runId }), open);
  await agent.runs.stop(runId, "enough");
  const events = await agent.events(runId);
  for (const expired of ["clarify.expired", "sudo.expired", "secret.expired"]) {
    assert.equal(events.find(({ type }) => type === expired)?.data["reason"], "cancelled", expired);
  }
  assert.equal(events.at(-1)?.type, "run.cancelled");
  assert.deepEqual(await agent.deps.questions.open({ sessionId }), []);
});

test("a run without anyone to answer asks no questions", async () => {
  await using agent = await asking(({ questions }) => questions.clarify(twoQuestions));
  const { runId } = await agent.submit("go", { id: "s" });
  const events = await agent.events(runId);
  assert.match(String(events.at(-1)?.data["output"]), /^error: This run cannot ask questions/);
  assert.ok(!events.some(({ type }) => type.startsWith("clarify.")));
});

test("a sub-agent asks in the run at the top of its family, and leave for the session holds for all of it", async () => {
  const ran: string[] = [];
  await using agent = await createTestAgent({
    tools: [createDelegateTask(), testTool(async ({ command }, { runId }) => (ran.push(runId), command))],
    script: ({ step, user, toolResults }) => {
      const delegate = (...goals: string[]) => ({
        calls: [{ tool: "delegate_task", input: { tasks: goals.map((goal) => ({ goal })) } }],
      });
      if (step > 0) return { text: toolResults.map(({ status }) => status).join() };
      if (user === "go") return delegate("nest");
      if (user === "nest") return delegate("leaf");
      return { calls: [{ tool: "terminal", input: { command: "git push origin main" } }] };
    },
  });
  const { runId, sessionId } = await agent.submit("go", { id: "s", answerable: true });
  const asked = await agent.event(runId, "approval.request");
  assert.ok(!("tool_call_id" in asked.data));
  assert.equal((await agent.run(runId)).status, "waiting_for_approval");
  const open = await agent.deps.questions.open({ sessionId });
  assert.deepEqual(
    open.map(({ id, run_id }) => [id, run_id]),
    [[String(asked.data["request_id"]), runId]],
  );
  await answer(agent, String(asked.data["request_id"]), { choice: "session" });
  await agent.events(runId);
  for (const text of ["go", "nest", "leaf"]) {
    const next = await agent.submit(text, { id: "s", answerable: true });
    const events = await agent.events(next.runId);
    assert.ok(!events.some(({ type }) => type === "approval.request"), text);
  }
  assert.equal(ran.length, 4);
});

test("a run that has ended asks no questions: a process that slept adds nothing after the end", async () => {
  const inTool = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  const outcome = Promise.withResolvers<unknown>();
  await using agent = await asking(async ({ questions }) => {
    inTool.resolve();
    await gate.promise;
    await questions.sudo("sudo ls").then(outcome.resolve, outcome.resolve);
  });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  await inTool.promise;
  const dead = { lease_owner: "process-that-never-was", lease_until: 1 };
  await agent.store.write(async (tx) => void (await tx.update("sessions", { id: "s" }, dead)));
  await using other = await createTestAgent({ database: agent.databaseUrl });
  assert.equal(await other.recovery.recover(), 1);
  gate.resolve();
  assert.ok((await outcome.promise) instanceof Error);
  await agent.runs.drain(0);
  assert.deepEqual(await other.deps.questions.open({ sessionId: "s" }), []);
  const all = await other.store.journal.read({ runId }, { after: 0 });
  assert.equal(all.at(-1)?.type, "run.interrupted");
});
