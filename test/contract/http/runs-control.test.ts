/** Steering and stopping, and what each state of a run makes of it. */
import assert from "node:assert/strict";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { callsOnce, testTool } from "../../harness/agent.ts";
import { allEvents, createGate, fetchRun, post, runEvent, startRun } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, type TestService } from "../../harness/service.ts";

const OTHER = "another-key-0123456789";
const twoKeys = [
  { key: KEY, name: "a", scopes: ["admin"] },
  { key: OTHER, name: "b", scopes: ["admin"] },
];
const asksOnce = { script: callsOnce("rm -rf build"), tools: [testTool(async () => "ran")] };

function stop(service: TestService, id: string, body?: unknown, headers: Record<string, string> = {}) {
  if (body !== undefined) return post(service, `/v1/runs/${id}/stop`, body, headers);
  return service.request(`/v1/runs/${id}/stop`, { method: "POST", headers });
}

async function stopped(service: TestService, id: string, body?: unknown) {
  const response = await stop(service, id, body);
  const result = await response.json();
  assert.equal(response.status, 200, JSON.stringify(result));
  assert.deepEqual([result.object, result.run_id], ["agent.run.stop", id]);
  return result.status;
}

const steer = (service: TestService, id: string, body: unknown, headers: Record<string, string> = {}) =>
  post(service, `/v1/runs/${id}/steer`, body, headers);

/** Two steps: in between it waits until it is let go, so that steering is taken by the second. */
function steps() {
  const gate = createGate();
  const script: Script = (state) =>
    state.step === 0
      ? { ...(gate.script(state) as object), calls: [{ tool: "terminal", input: { command: "ls" } }] }
      : { text: state.messages.flatMap((said) => (said.role === "user" ? [said.text] : [])).join(" | ") };
  return { script, open: gate.open, tools: [testTool(async () => "a b")] };
}

/** A model that goes on after it was asked to stop, until it is let go. */
function stubborn() {
  const gate = Promise.withResolvers<void>();
  async function* speak() {
    yield "before ";
    await gate.promise;
    yield "after";
  }
  return { script: () => ({ text: speak() }), open: () => gate.resolve() };
}

const slow = stubborn();
scenario(
  "stopRun",
  200,
  {
    title: "a running run goes through stopping to cancelled, and a second stop returns the status",
    script: slow.script,
  },
  async (service) => {
    const { run_id: id } = await startRun(service);
    await runEvent(service, id, "message.delta");
    assert.equal(await stopped(service, id, { reason: "enough" }), "stopping");
    const run = await fetchRun(service, id);
    assert.deepEqual([run.status, run.stop_requested], ["stopping", true], "until the work has really ended");
    assert.equal(await stopped(service, id), "stopping");
    slow.open();
    assert.equal((await fetchRun(service, id, 30)).status, "cancelled");
    assert.equal(await stopped(service, id), "cancelled");
    const events = await allEvents(service, id);
    const states = events.filter(({ event }) => event === "run.stopping" || event === "run.cancelled");
    assert.deepEqual(
      states.map((event) => [event.event, "reason" in event ? event.reason : undefined]),
      [
        ["run.stopping", "enough"],
        ["run.cancelled", "enough"],
      ],
    );
    assert.deepEqual(new Set(events.map(({ seq }) => seq)).size, events.length);
  },
);

scenario(
  "stopRun",
  200,
  { title: "a queued run is cancelled at once and never starts", script: createGate().script },
  async (service) => {
    const first = await startRun(service, { session_id: "s" });
    const second = await startRun(service, { session_id: "s" });
    const third = await startRun(service, { session_id: "s" });
    assert.equal(await stopped(service, second.run_id, { reason: "not needed" }), "cancelled");
    await stopped(service, first.run_id);
    assert.equal((await fetchRun(service, first.run_id, 30)).status, "cancelled");
    await runEvent(service, third.run_id, "message.delta");
    const run = await fetchRun(service, second.run_id);
    assert.deepEqual([run.status, run.started_at], ["cancelled", null]);
  },
);

scenario(
  "stopRun",
  200,
  { title: "a run that waits for approval is stopped and closes its question", ...asksOnce },
  async (service) => {
    const { run_id: id } = await startRun(service);
    assert.equal((await fetchRun(service, id, 30)).status, "waiting_for_approval");
    assert.ok(["stopping", "cancelled"].includes(await stopped(service, id)));
    const run = await fetchRun(service, id, 30);
    assert.equal(run.status, "cancelled");
    assert.deepEqual([run.approvals, run.approval], [[], null]);
  },
);

scenario(
  "stopRun",
  200,
  { title: "a terminal status never changes again", keys: twoKeys },
  async (service) => {
    const { run_id: id } = await startRun(service);
    assert.equal((await fetchRun(service, id, 30)).status, "completed");
    assert.equal(await stopped(service, id), "completed");
    assert.equal(await stopped(service, id, { reason: "again" }), "completed");
    const run = await fetchRun(service, id);
    assert.deepEqual([run.status, run.stop_requested, run.output], ["completed", false, "hello"]);
  },
);

scenario(
  "stopRun",
  200,
  { title: "many concurrent stops give one end", script: createGate().script },
  async (service) => {
    for (let round = 0; round < 10; round++) {
      const { run_id: id } = await startRun(service);
      const statuses = await Promise.all([1, 2, 3, 4, 5].map(() => stopped(service, id)));
      assert.ok(
        statuses.every((status) => ["stopping", "cancelled"].includes(status)),
        statuses.join(),
      );
      await fetchRun(service, id, 30);
      const names = (await allEvents(service, id)).map(({ event }) => event);
      assert.equal(names.filter((name) => name === "run.cancelled").length, 1);
      assert.equal(names.filter((name) => name === "run.stopping").length, 1);
    }
  },
);

scenario("stopRun", 400, { title: "a body with a wrong type" }, async (service) => {
  const { run_id: id } = await startRun(service);
  await assertError(await stop(service, id, { why: "x" }), 400, "invalid_request");
  await assertError(await stop(service, id, "{"), 400, "invalid_json");
});

scenario(
  "stopRun",
  404,
  { title: "an unknown run and another key's look the same", keys: twoKeys },
  async (service) => {
    const { run_id: id } = await startRun(service);
    const headers = { authorization: `Bearer ${OTHER}` };
    await assertError(await stop(service, id, undefined, headers), 404, "run_not_found");
    await assertError(await stop(service, "run_nope"), 404, "run_not_found");
  },
);

const steered = steps();
scenario(
  "steerRun",
  200,
  { title: "the text reaches the model at its next step", ...steered },
  async (service) => {
    const { run_id: id } = await startRun(service, { input: "go" });
    await runEvent(service, id, "message.delta");
    for (const [name, text] of [
      ["input", "one"],
      ["message", "two"],
      ["text", "three"],
    ] as const) {
      const response = await steer(service, id, { [name]: text });
      assert.deepEqual(await response.json(), { object: "agent.run.steer", run_id: id, accepted: true });
      assert.equal(response.status, 200);
    }
    steered.open();
    assert.equal((await fetchRun(service, id, 30)).output, "go | one | two | three");
    const texts = (await allEvents(service, id)).flatMap((event) =>
      event.event === "run.steered" ? [event.text] : [],
    );
    assert.deepEqual(texts, ["one", "two", "three"]);
  },
);

const late = createGate();
scenario(
  "steerRun",
  200,
  { title: "text that comes too late is returned", script: late.script },
  async (service) => {
    const { run_id: id } = await startRun(service);
    await runEvent(service, id, "message.delta");
    assert.equal((await steer(service, id, { input: "too late" })).status, 200);
    await stopped(service, id);
    const run = await fetchRun(service, id, 30);
    assert.deepEqual([run.status, run.pending_steer], ["cancelled", ["too late"]]);
  },
);

scenario(
  "steerRun",
  400,
  { title: "not exactly one text", script: createGate().script, config: { limits: { max_text_bytes: 8 } } },
  async (service) => {
    const { run_id: id } = await startRun(service);
    for (const body of [
      {},
      { input: "" },
      { input: " \n" },
      { input: "a", text: "b" },
      { text: "123456789" },
    ]) {
      await assertError(await steer(service, id, body), 400, "invalid_steer_input");
    }
    await assertError(await steer(service, id, { text: "äöüäö" }), 400, "invalid_steer_input");
    await assertError(await steer(service, id, { input: 7 }), 400, "invalid_request");
  },
);

scenario(
  "steerRun",
  404,
  { title: "an unknown run and another key's look the same", keys: twoKeys },
  async (service) => {
    const { run_id: id } = await startRun(service);
    const headers = { authorization: `Bearer ${OTHER}` };
    await assertError(await steer(service, id, { input: "x" }, headers), 404, "run_not_found");
    await assertError(await steer(service, "run_nope", { input: "x" }), 404, "run_not_found");
  },
);

scenario(
  "steerRun",
  409,
  { title: "only a running run can be steered, not a waiting or ended one", ...asksOnce },
  async (service) => {
    const { run_id: id } = await startRun(service);
    assert.equal((await fetchRun(service, id, 30)).status, "waiting_for_approval");
    await assertError(await steer(service, id, { input: "x" }), 409, "run_not_accepting_steer");
    await stopped(service, id);
    await fetchRun(service, id, 30);
    await assertError(await steer(service, id, { input: "x" }), 409, "run_not_active");
  },
);

const stopping = stubborn();
scenario(
  "steerRun",
  409,
  { title: "only a running run can be steered, not a queued or stopping one", script: stopping.script },
  async (service) => {
    const first = await startRun(service, { session_id: "s" });
    const second = await startRun(service, { session_id: "s" });
    const response = await steer(service, second.run_id, { input: "x" });
    assert.equal(response.headers.get("x-should-retry"), "false");
    await assertError(response, 409, "run_not_accepting_steer");
    await runEvent(service, first.run_id, "message.delta");
    assert.equal(await stopped(service, first.run_id), "stopping");
    await assertError(await steer(service, first.run_id, { input: "x" }), 409, "run_not_accepting_steer");
    stopping.open();
  },
);
