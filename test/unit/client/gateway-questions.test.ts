import assert from "node:assert/strict";
import { test } from "node:test";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import type { GatewayClient, GatewayQuestions } from "../../../src/client/gateway.ts";
import { testTool } from "../../harness/agent.ts";
import { connect, endsTurn, readUntil, socketTo } from "../../harness/gateway-client.ts";
import { startTestService, type TestService } from "../../harness/service.ts";

/** Calls the tool with what the user said, and says what it answered. */
const script: Script = ({ step, user, toolResults }) =>
  step === 0
    ? { calls: [{ tool: "terminal", input: { command: user } }] }
    : { text: toolResults.map(({ status, text }) => `${status}: ${text}`).join("\n") };

const DANGEROUS = "rm -rf /x";

function startWithQuestions(): Promise<TestService> {
  const tool = testTool(async ({ command }, { questions }) => {
    if (command === "clarify") {
      const asked = [{ id: "q", question: "Which one?", choices: ["a", "b"], multi_select: false }];
      return JSON.stringify(await questions.clarify(asked));
    }
    if (command === "root") return (await questions.sudo("apt update")) === "pw-canary" ? "uid 0" : "no";
    if (command === "secret") return questions.secret({ prompt: "The key?", envVar: "TEST_TOKEN" });
    return "ran";
  });
  return startTestService({ script, tools: [tool] });
}

/** Takes a turn; resolves to its answer. */
async function ask(client: GatewayClient, sessionId: string, text: string): Promise<string> {
  const events = client.events({ sessionId });
  const { turn_id } = await client.call("prompt.submit", { session_id: sessionId, text });
  const all = await readUntil(events, (event) => endsTurn(event, turn_id));
  const complete = all.find((event) => event.type === "message.complete");
  assert.ok(complete?.type === "message.complete");
  return complete.payload.text;
}

/** A question function that a test answers by hand. */
function pending<T>() {
  const asked = Promise.withResolvers<{ signal: AbortSignal; id: string }>();
  const answer = Promise.withResolvers<T>();
  let count = 0;
  const put = (
    { payload }: { readonly payload: { readonly request_id: string } },
    { signal }: { readonly signal: AbortSignal },
  ) => {
    count += 1;
    asked.resolve({ signal, id: payload.request_id });
    return answer.promise;
  };
  return { put, asked: asked.promise, answer: answer.resolve, count: () => count };
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve());
  });
}

test("each kind of question reaches its function, and the answer the agent", async () => {
  await using service = await startWithQuestions();
  const transport = socketTo(service);
  const seen: string[] = [];
  const questions: GatewayQuestions = {
    approval: ({ payload }) => {
      seen.push(payload.command);
      return { choice: "once" };
    },
    clarify: async ({ payload }) => {
      seen.push(payload.question);
      return { answer: "b" };
    },
    sudo: ({ payload }) => {
      seen.push(payload.command);
      return { value: "pw-canary" };
    },
    secret: ({ payload }) => {
      seen.push(payload.env_var);
      return { value: "tok-canary" };
    },
  };
  await using client = await connect(transport, { questions });
  const { session_id } = await client.call("session.create");
  assert.equal(await ask(client, session_id, DANGEROUS), "ok: ran");
  assert.match(await ask(client, session_id, "clarify"), /"q":"b"/);
  assert.match(await ask(client, session_id, "root"), /uid 0/);
  assert.match(await ask(client, session_id, "secret"), /stored/);
  assert.deepEqual(seen, [DANGEROUS, "Which one?", "apt update", "TEST_TOKEN"]);
  const events = transport.received.filter(({ method }) => method === "event");
  assert.ok(!events.some(({ params }) => params.type.endsWith(".request")), "no question comes as an event");
  assert.ok(!JSON.stringify(transport.received).includes("canary"));
  assert.equal(transport.problem, undefined);
});

test("of two clients the first answer wins, and the other's signal aborts", async () => {
  await using service = await startWithQuestions();
  const [mine, theirs] = [pending<{ choice: "once" }>(), pending<{ choice: "deny" }>()];
  await using first = await connect(socketTo(service), { questions: { approval: mine.put } });
  await using second = await connect(socketTo(service), { questions: { approval: theirs.put } });
  const { session_id } = await first.call("session.create");
  await second.call("session.activate", { session_id });
  const done = ask(first, session_id, DANGEROUS);
  const [here, there] = await Promise.all([mine.asked, theirs.asked]);
  assert.equal(here.id, there.id);
  mine.answer({ choice: "once" });
  await aborted(there.signal);
  theirs.answer({ choice: "deny" }); // too late: it is dropped
  assert.equal(await done, "ok: ran");
});

test("a question that is open when a client attaches is asked of it too", async () => {
  await using service = await startWithQuestions();
  const [mine, theirs] = [pending<{ choice: "once" }>(), pending<{ choice: "once" }>()];
  await using first = await connect(socketTo(service), { questions: { approval: mine.put } });
  const { session_id } = await first.call("session.create");
  const done = ask(first, session_id, DANGEROUS);
  const here = await mine.asked;
  const transport = socketTo(service);
  await using second = await connect(transport, { questions: { approval: theirs.put } });
  await second.call("session.resume", { session_id });
  await theirs.asked;
  theirs.answer({ choice: "once" });
  await aborted(here.signal);
  assert.equal(await done, "ok: ran");
  assert.equal(transport.problem, undefined);
});

test("a cut does not end a question: it is asked once, and its answer goes over the next connection", async () => {
  await using service = await startWithQuestions();
  const transport = socketTo(service);
  const question = pending<{ choice: "once" }>();
  await using client = await connect(transport, { questions: { approval: question.put } });
  const { session_id } = await client.call("session.create");
  const done = ask(client, session_id, DANGEROUS);
  const { signal } = await question.asked;
  transport.cut();
  await client.call("ping");
  assert.equal(signal.aborted, false);
  question.answer({ choice: "once" });
  assert.equal(await done, "ok: ran");
  assert.deepEqual([question.count(), transport.connections], [1, 2]);
  assert.equal(transport.problem, undefined);
});

test("an answer that was lost with its connection is sent again", async () => {
  await using service = await startWithQuestions();
  const transport = socketTo(service);
  const question = pending<{ choice: "once" }>();
  await using client = await connect(transport, { questions: { approval: question.put } });
  const { session_id } = await client.call("session.create");
  const done = ask(client, session_id, DANGEROUS);
  await question.asked;
  // What the client sends from here on is lost, until the connection is cut.
  const lost = Promise.withResolvers<void>();
  transport.tamper = (frame) => {
    if (frame.result?.choice === undefined) return frame;
    lost.resolve();
    return { jsonrpc: "2.0", method: "ping" };
  };
  question.answer({ choice: "once" });
  await lost.promise;
  transport.cut();
  assert.equal(await done, "ok: ran");
  assert.equal(question.count(), 1);
});

test("a question that was answered elsewhere during a cut is withdrawn", async () => {
  await using service = await startWithQuestions();
  const transport = socketTo(service);
  const question = pending<{ choice: "once" }>();
  await using client = await connect(transport, { questions: { approval: question.put } });
  await using other = await connect(socketTo(service));
  const { session_id } = await client.call("session.create");
  await other.call("session.activate", { session_id });
  const ended = readUntil(other.events(), (event) => endsTurn(event));
  const done = ask(client, session_id, DANGEROUS);
  const { signal, id } = await question.asked;
  transport.holds = ended;
  transport.cut();
  await other.call("approval.respond", { session_id, request_id: id, choice: "deny" });
  await ended;
  await aborted(signal);
  assert.match(await done, /denied|refused|not/i);
  assert.equal(question.count(), 1);
});

test("undefined declines; a function that throws declines, and the host is notified", async () => {
  await using service = await startWithQuestions();
  await using client = await connect(socketTo(service), {
    questions: {
      clarify: () => undefined,
      sudo: () => {
        throw new Error("no screen");
      },
    },
  });
  const { session_id } = await client.call("session.create");
  const events = client.events({ sessionId: session_id });
  const declined = await ask(client, session_id, "clarify");
  assert.ok(!declined.includes('"q":"a"'), declined);
  await ask(client, session_id, "root");
  const failed = (await readUntil(events, (event) => event.type === "client.question_failed")).at(-1);
  assert.ok(failed?.type === "client.question_failed");
  assert.equal((failed.payload.error as Error).message, "no screen");
});

test("without functions questions are events, answered by calls", async () => {
  await using service = await startWithQuestions();
  await using client = await connect(socketTo(service));
  const { session_id } = await client.call("session.create");
  const events = client.events({ sessionId: session_id });
  const done = ask(client, session_id, DANGEROUS);
  const asked = (await readUntil(events, (event) => event.type === "approval.request")).at(-1);
  assert.ok(asked?.type === "approval.request");
  const { request_id } = asked.payload;
  const answer = await client.call("approval.respond", { session_id, request_id, choice: "once" });
  assert.equal(answer.resolved, 1);
  assert.equal(await done, "ok: ran");
});
