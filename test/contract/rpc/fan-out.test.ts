/** Several clients on one session: all see everything, the first valid answer wins, one that leaves ends nothing. */
import assert from "node:assert/strict";
import type { Json, RpcHost } from "../../harness/rpc.ts";
import { assertSameStream, assertTurnOrder } from "../../harness/turn-order.ts";
import { openSession, rpcScenario, type Probe, type RpcSetting } from "./scenario.ts";

type Kind = "approval" | "clarify" | "sudo" | "secret";

/** Asks what the command says, and answers what came of it. */
const asking: Probe = async ({ command }, { questions }) => {
  if (command === "clarify") {
    const question = { id: "q1", question: "Which?", choices: ["this", "that"], multi_select: false };
    return (await questions.clarify([question]))["q1"] || "nothing";
  }
  if (command === "password") return (await questions.sudo("sudo true")) === undefined ? "refused" : "taken";
  if (command === "secret") return questions.secret({ prompt: "A value", envVar: "FAN_OUT_TEST" });
  return "went";
};

/** Commands by the kind of question they lead to. */
const commands: Readonly<Record<string, string>> = { approval: "rm -rf /x", sudo: "password" };

/** Calls the tool once with what the user says, and says what it answered. */
const script = ({ user, step, toolResults }: Json) =>
  step === 0
    ? { calls: [{ tool: "probe", input: { command: commands[user] ?? user } }] }
    : { text: toolResults.map(({ text }: Json) => text).join(" ") };

const twice = ({ step, toolResults }: Json) =>
  step === 0
    ? { calls: [1, 2].map((n) => ({ tool: "probe", input: { command: `rm -rf /x${n}` } })) }
    : { text: toolResults.map(({ text }: Json) => text).join(" ") };

/** A session that several hosts follow; each says how it wants to be asked. */
async function share(
  host: RpcHost,
  { connect }: RpcSetting,
  styles: readonly ("event" | "request")[],
): Promise<{ readonly id: string; readonly hosts: readonly RpcHost[] }> {
  const id = await openSession(host);
  const hosts = [];
  for (const style of styles) {
    const other = await connect();
    if (style === "request") await other.result("client.capabilities", { server_requests: true });
    await other.result("session.activate", { session_id: id });
    hosts.push(other);
  }
  await host.result("session.detach", { session_id: id });
  return { id, hosts };
}

const asked = (host: RpcHost, kind: Kind, after = 0) =>
  host.frame(
    ({ method, params }) => method === kind || (method === "event" && params.type === `${kind}.request`),
    after,
  );
const submit = (host: RpcHost, id: string, text: string) =>
  host.result("prompt.submit", { session_id: id, text });
const cancelled = async (host: RpcHost) => (await host.event("request.cancel")).payload;
/** Waits for the end of the turn. Resolves to the payload of `message.complete`. */
async function ended(host: RpcHost, id: string): Promise<Json> {
  const end = await host.event("message.complete", (event) => event.session_id === id);
  const at = host.frames.findIndex(({ params }) => params === end);
  await host.event("session.info", (event) => event.session_id === id, at);
  return end.payload;
}

/** Answers by the method of the kind. */
async function respond(host: RpcHost, kind: Kind, id: string, request: string): Promise<Json> {
  const about = { session_id: id, request_id: request };
  const answers = {
    approval: { ...about, choice: "once" },
    clarify: { ...about, answer: "this" },
    sudo: { ...about, password: "pw-fan-out" },
    secret: { ...about, value: "value-fan-out" },
  };
  return host.call(`${kind}.respond`, answers[kind]);
}

const results: Readonly<Record<Kind, Json>> = {
  approval: { choice: "once" },
  clarify: { answer: "this" },
  sudo: { value: "pw-fan-out" },
  secret: { value: "value-fan-out" },
};
const said: Readonly<Record<Kind, string>> = {
  approval: "went",
  clarify: "this",
  sudo: "taken",
  secret: "stored",
};

async function answeredByRequest(kind: Kind, host: RpcHost, setting: RpcSetting): Promise<void> {
  const { id, hosts } = await share(host, setting, ["event", "request", "event"]);
  const [first, second, third] = hosts as [RpcHost, RpcHost, RpcHost];
  await submit(first, id, kind);
  const [event, question] = await Promise.all([asked(first, kind), asked(second, kind), asked(third, kind)]);
  const requestId = event.params.payload.request_id;
  assert.deepEqual([question.id, question.params.payload.request_id], [requestId, requestId]);
  second.send({ jsonrpc: "2.0", id: requestId, result: results[kind] });
  for (const other of hosts) {
    const { id: cancelledId, method, reason } = await cancelled(other);
    assert.deepEqual([cancelledId, method, reason], [requestId, kind, "resolved"]);
  }
  const late = await respond(first, kind, id, requestId);
  assert.ok(late.error?.code === 4009, JSON.stringify(late));
  assert.equal((await ended(third, id)).text, said[kind]);
  for (const other of hosts) await ended(other, id);
  assertSameStream(first.events(id), third.events(id));
  hosts.forEach((other) => assertTurnOrder(other.frames, id));
}

async function answeredByMethod(kind: Kind, host: RpcHost, setting: RpcSetting): Promise<void> {
  const { id, hosts } = await share(host, setting, ["request", "event", "request"]);
  const [first, second, third] = hosts as [RpcHost, RpcHost, RpcHost];
  await submit(first, id, kind);
  const [question, event] = await Promise.all([asked(first, kind), asked(second, kind), asked(third, kind)]);
  const answer = await respond(second, kind, id, event.params.payload.request_id);
  assert.ok(answer.result, JSON.stringify(answer));
  for (const other of hosts) assert.equal((await cancelled(other)).reason, "resolved");
  // Too late: the question is closed, so the answer is dropped.
  first.send({ jsonrpc: "2.0", id: question.id, result: results[kind] });
  assert.equal((await ended(first, id)).text, said[kind]);
  assert.deepEqual(await first.result("ping"), { pong: true });
}

rpcScenario(
  ["event approval.request", "question approval", "answer approval", "event request.cancel"],
  { title: "by a server request first, then too late by method", script, probe: asking },
  (host, setting) => answeredByRequest("approval", host, setting),
);
rpcScenario(
  ["event clarify.request", "question clarify", "answer clarify"],
  { title: "by a server request first, then too late by method", script, probe: asking },
  (host, setting) => answeredByRequest("clarify", host, setting),
);
rpcScenario(
  ["event sudo.request", "question sudo", "answer sudo"],
  { title: "by a server request first, then too late by method", script, probe: asking },
  (host, setting) => answeredByRequest("sudo", host, setting),
);
rpcScenario(
  ["event secret.request", "question secret", "answer secret"],
  { title: "by a server request first, then too late by method", script, probe: asking },
  (host, setting) => answeredByRequest("secret", host, setting),
);

rpcScenario(
  ["approval.respond", "clarify.respond", "sudo.respond", "secret.respond"],
  { title: "by method first, then too late by a server request", script, probe: asking },
  async (host, setting) => {
    for (const kind of ["approval", "clarify", "sudo", "secret"] as const) {
      await answeredByMethod(kind, host, setting);
    }
  },
);

rpcScenario(
  "question approval",
  {
    title: "when all followers decline, the question ends at once as if timed out",
    script,
    probe: asking,
  },
  async (host, setting) => {
    const { id, hosts } = await share(host, setting, ["request", "request"]);
    const [first, second] = hosts as [RpcHost, RpcHost];
    await submit(first, id, "approval");
    const question = await asked(first, "approval");
    await asked(second, "approval");
    const decline = { code: -32601, message: "not shown here" };
    first.send({ jsonrpc: "2.0", id: question.id, error: decline });
    await first.result("ping");
    const { open_requests: open } = await first.result("session.events.since", { session_id: id });
    assert.equal(open.length, 1, "one who declines ends nothing");
    second.send({ jsonrpc: "2.0", id: question.id, error: decline });
    for (const other of hosts) assert.equal((await cancelled(other)).reason, "timeout");
    const { status, text } = await ended(first, id);
    assert.equal(status, "complete");
    assert.match(text, /no answer came in time/);
  },
);

rpcScenario(
  "question clarify",
  { title: "one client that declines leaves the question to the others", script, probe: asking },
  async (host, setting) => {
    const { id, hosts } = await share(host, setting, ["request", "event"]);
    const [first, second] = hosts as [RpcHost, RpcHost];
    await submit(first, id, "clarify");
    const question = await asked(first, "clarify");
    first.send({ jsonrpc: "2.0", id: question.id, error: { code: -32601, message: "not shown here" } });
    await first.result("ping");
    const answer = await respond(second, "clarify", id, question.id);
    assert.deepEqual(answer.result, { status: "ok" });
    assert.equal((await cancelled(first)).reason, "resolved");
    assert.equal((await ended(second, id)).text, "this");
  },
);

rpcScenario(
  "answer approval",
  { title: "all: true in a host's answer also settles the session's other approvals", script: twice },
  async (host, setting) => {
    const { id, hosts } = await share(host, setting, ["request", "event"]);
    const [first, second] = hosts as [RpcHost, RpcHost];
    await submit(first, id, "go");
    const question = await asked(first, "approval");
    await first.frame(({ method, id: other }) => method === "approval" && other !== question.id);
    first.send({ jsonrpc: "2.0", id: question.id, result: { choice: "session", all: true } });
    const { text } = await ended(second, id);
    assert.equal(text, "rm -rf /x1 rm -rf /x2");
    const reasons = second.events(id).filter(({ type }) => type === "request.cancel");
    assert.deepEqual(
      reasons.map(({ payload }) => payload.reason),
      ["resolved", "resolved"],
    );
  },
);

rpcScenario(
  "answer approval",
  { title: "a choice that is not offered is narrowed", script, probe: asking },
  async (host, setting) => {
    const { id, hosts } = await share(host, setting, ["request"]);
    const [first] = hosts as [RpcHost];
    await submit(first, id, "approval");
    const question = await asked(first, "approval");
    const { choices } = question.params.payload;
    first.send({ jsonrpc: "2.0", id: question.id, result: { choice: "always" } });
    const { resolution } = await cancelled(first);
    assert.ok(choices.includes(resolution), `${resolution} of ${choices}`);
    assert.equal((await ended(first, id)).text, "went");
  },
);

rpcScenario(
  "event message.complete",
  {
    title: "the prompting host may leave: its turn and question continue for the others",
    script,
    probe: asking,
  },
  async (host, setting) => {
    const { id, hosts } = await share(host, setting, ["event", "request", "event"]);
    const [first, second, third] = hosts as [RpcHost, RpcHost, RpcHost];
    await submit(first, id, "clarify");
    const event = await asked(first, "clarify");
    await Promise.all([asked(second, "clarify"), asked(third, "clarify")]);
    for (const leaving of [first, second]) {
      leaving.wire.close();
      await leaving.wire.closed;
    }
    const { open_requests: open } = await third.result("session.events.since", { session_id: id });
    assert.equal(open.length, 1);
    await respond(third, "clarify", id, event.params.payload.request_id);
    const { status, text } = await ended(third, id);
    assert.deepEqual([status, text], ["complete", "this"]);
    assertTurnOrder(third.frames, id);
  },
);

rpcScenario(
  "event request.cancel",
  {
    title:
      "a question expires while no client is connected; later clients get its expiry, and not the question",
    script,
    tools: [],
    probe: asking,
    config: { approvals: { timeout_seconds: 1 } },
  },
  async (host, setting) => {
    const { id, hosts } = await share(host, setting, ["event"]);
    const [only] = hosts as [RpcHost];
    await submit(only, id, "approval");
    await asked(only, "approval");
    for (const leaving of [host, only]) {
      leaving.wire.close();
      await leaving.wire.closed;
    }
    const { store } = setting.service.service;
    for await (const group of store.journal.follow({ sessionId: id })) {
      if (group.some(({ type }) => type === "run.completed")) break;
    }
    const again = await setting.connect();
    const cursor = { epoch: store.epoch, last_seen: 0 };
    const { open_requests: open } = await again.result("session.resume", { session_id: id, cursor });
    assert.deepEqual(open, []);
    assert.match((await ended(again, id)).text, /no answer came in time/);
    assert.equal((await cancelled(again)).reason, "timeout");
    assert.deepEqual(
      again.events(id).filter(({ type }) => type === "approval.request"),
      [],
    );
    assertTurnOrder(again.frames, id, 0);
  },
);
