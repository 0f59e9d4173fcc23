import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as later } from "node:timers/promises";
import type {
  AgentContext,
  RequestPermissionRequest,
  SessionUpdate,
} from "@agentclientprotocol/sdk/unstable";
import { AcpConnection, AcpSession, AcpTurn } from "../../../src/acp/wire/connection.ts";
import { Wire } from "../../../src/acp/wire/wire.ts";
import { TurnQuestions } from "../../../src/acp/questions/questions.ts";
import type { AcpDeps } from "../../../src/acp/deps.ts";
import { FakeClock } from "../../harness/fake-clock.ts";

interface Shown {
  readonly request: RequestPermissionRequest;
  readonly signal: AbortSignal;
  choose(optionId: string): void;
  cancel(): void;
}

/** These tests bind no requests: nothing crosses the stream. */
const unusedWire = new Wire({
  input: (async function* () {})(),
  output: {
    write: () => {},
    buffered: () => 0,
    onDrain: () => {},
    onBroken: () => {},
    flushed: async () => {},
  },
  clock: new FakeClock(),
  onEnd: () => {},
});

/** One turn of a client that shows what it is asked, and the record that answers go into. */
function makeTurn() {
  const clock = new FakeClock();
  const shown: Shown[] = [];
  const updates: SessionUpdate[] = [];
  const answers: object[] = [];
  const givenUp: string[] = [];
  const asked = {
    answer: async (id: string, answer: object) => void answers.push({ id, ...answer }),
    giveUp: async (id: string) => void givenUp.push(id),
  };
  const log = { debug: () => {}, warn: () => {} };
  const deps = { agent: { deps: { questions: asked } }, clock, log, owner: "default" } as unknown as AcpDeps;
  const client = {
    notify: async (_: string, { update }: { readonly update: SessionUpdate }) => void updates.push(update),
    request: (_: string, request: RequestPermissionRequest, options: { cancellationSignal: AbortSignal }) =>
      new Promise((resolve, reject) => {
        const signal = options.cancellationSignal;
        signal.addEventListener("abort", () => reject(signal.reason), { once: true });
        const choose = (optionId: string) => resolve({ outcome: { outcome: "selected", optionId } });
        const cancel = () => resolve({ outcome: { outcome: "cancelled" } });
        shown.push({ request, signal, choose, cancel });
      }),
  };
  const connection = new AcpConnection({
    version: "0.0.0",
    load: async () => deps,
    wire: unusedWire,
    onFault: () => {},
    launcher: () => ({ command: "agentd", args: [], env: {} }),
  });
  connection.connected(client as unknown as AgentContext);
  const session = new AcpSession({ id: "s", seed: { source: "acp", cwd: "/" }, openedAtMs: 0 });
  const turn = new AcpTurn();
  const questions = new TurnQuestions({ connection, session, turn, callOf: () => undefined });
  return { clock, shown, updates, answers, givenUp, turn, questions };
}

let seq = 0;

function event(type: string, data: Record<string, unknown>) {
  return { type, runId: "run", seq: ++seq, runSeq: seq, at: 0, data } as never;
}

const approval = (id: string, more: Record<string, unknown> = { tool_call_id: `call-${id}` }) =>
  event("approval.request", {
    request_id: id,
    tool: "terminal",
    kind: "command",
    title: "Run: make",
    command: "make",
    choices: ["once", "deny"],
    ...more,
  });

const settled = (kind: string, id: string, data: object = {}) =>
  event(`approval.${kind}`, { request_id: id, ...data });

/** Until what is under way has come to rest. */
async function rest(): Promise<void> {
  for (let turns = 0; turns < 5; turns++) await later();
}

test("questions are asked one after the other, in order", async () => {
  const { questions, shown, answers } = makeTurn();
  for (const id of ["a", "b", "c"]) questions.ask(approval(id));
  await rest();
  for (const [index, id] of ["a", "b", "c"].entries()) {
    assert.equal(shown.length, index + 1);
    assert.equal(shown[index]?.request.toolCall.toolCallId, `run:call-${id}`);
    shown[index]?.choose(id === "b" ? "deny" : "allow_once");
    await rest();
  }
  assert.deepEqual(answers, [
    { id: "a", owner: "default", by: "acp", choice: "once" },
    { id: "b", owner: "default", by: "acp", choice: "deny" },
    { id: "c", owner: "default", by: "acp", choice: "once" },
  ]);
});

test("a permission request that the editor cancels ends the turn", async () => {
  const { questions, turn, shown, answers } = makeTurn();
  questions.ask(approval("a"));
  await rest();
  shown[0]?.cancel();
  await rest();
  assert.deepEqual([shown.length, turn.signal.aborted, answers], [1, true, []]);
});

test("an option that was not offered denies the call", async () => {
  const { questions, shown, answers } = makeTurn();
  for (const [index, optionId] of ["allow_always", "allow_session", "yes", ""].entries()) {
    questions.ask(approval(optionId));
    await rest();
    shown[index]?.choose(optionId);
    await rest();
    assert.deepEqual(answers.at(-1), { id: optionId, owner: "default", by: "acp", choice: "deny" });
  }
  assert.equal(answers.length, 4);
});

test("a question that another client answers is withdrawn, even before it is shown, and the next one is asked", async () => {
  const { questions, shown, answers } = makeTurn();
  for (const id of ["a", "b", "c"]) questions.ask(approval(id));
  await rest();
  questions.settled(settled("responded", "b", { choice: "once" }));
  questions.settled(settled("responded", "a", { choice: "once" }));
  await rest();
  assert.ok(shown[0]?.signal.aborted);
  assert.deepEqual(
    shown.map(({ request }) => request.toolCall.toolCallId),
    ["run:call-a", "run:call-c"],
  );
  shown[0]?.choose("allow_once");
  await rest();
  assert.deepEqual(answers, []);
});

test("open questions are withdrawn when the turn ends or is cancelled, and late answers are ignored", async () => {
  for (const end of ["close", "cancel"] as const) {
    const { questions, turn, shown, answers } = makeTurn();
    for (const id of ["a", "b"]) questions.ask(approval(id));
    await rest();
    // The answer is here already, and nobody has looked at it yet.
    shown[0]?.choose("allow_once");
    if (end === "close") questions.close();
    else turn.cancel();
    await rest();
    assert.ok(shown[0]?.signal.aborted);
    assert.equal(shown.length, 1);
    assert.deepEqual(answers, []);
  }
});

test("the first unanswered approval shortens later waits to 30 s, and an answer restores them", async () => {
  const { questions, shown, clock, givenUp } = makeTurn();
  questions.ask(approval("a"));
  await rest();
  clock.tick(3_600_000);
  await rest();
  assert.deepEqual(givenUp, []);
  questions.settled(settled("expired", "a", { reason: "timeout" }));
  questions.ask(approval("b"));
  await rest();
  clock.tick(29_999);
  await rest();
  assert.deepEqual(givenUp, []);
  clock.tick(1);
  await rest();
  assert.deepEqual(givenUp, ["b"]);
  questions.settled(settled("expired", "b", { reason: "timeout" }));
  questions.ask(approval("c"));
  await rest();
  shown[2]?.choose("allow_once");
  await rest();
  questions.ask(approval("d"));
  await rest();
  clock.tick(3_600_000);
  await rest();
  assert.deepEqual(givenUp, ["b"]);
});

test("a question of a sub-agent gets its own tool call, which ends with the answer", async () => {
  const { questions, shown, updates } = makeTurn();
  for (const id of ["a", "b", "c"]) questions.ask(approval(id, {}));
  await rest();
  assert.equal(shown[0]?.request.toolCall.toolCallId, "a");
  questions.settled(settled("responded", "a", { choice: "once" }));
  questions.settled(settled("responded", "b", { choice: "deny" }));
  questions.close();
  const sent = updates.map((update) => {
    assert.ok(update.sessionUpdate === "tool_call" || update.sessionUpdate === "tool_call_update");
    return [update.sessionUpdate, update.toolCallId, update.status];
  });
  assert.deepEqual(sent, [
    ["tool_call", "a", "pending"],
    ["tool_call", "b", "pending"],
    ["tool_call", "c", "pending"],
    ["tool_call_update", "a", "completed"],
    ["tool_call_update", "b", "failed"],
    ["tool_call_update", "c", "failed"],
  ]);
});
