/** Streams of responses that are cut and taken up again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ResponseObject, ResponseStreamEvent } from "../../../generated/http/client/types.gen.ts";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { callsOnce, testTool } from "../../harness/agent.ts";
import {
  checkStream,
  eventsOf,
  getResponse,
  objectOf,
  outputText,
  respond,
  responseOf,
} from "../../harness/responses.ts";
import { createGate, runEvent } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { startTestService, type TestService } from "../../harness/service.ts";

const tools = [testTool(async ({ command }) => `did ${command}`)];
const script: Script = (state) => ({
  reasoning: "let me see",
  ...callsOnce("one", "two")(state),
  text: state.step === 0 ? "I look." : "All done.",
  chunkSize: 4,
});

/** The events after each event there is, as a client that was cut there asks for them. */
async function assertResumes(service: TestService, id: string, all: readonly ResponseStreamEvent[]) {
  for (const { sequence_number: after } of all) {
    const rest = await eventsOf(await getResponse(service, id, `?stream=true&starting_after=${after}`));
    assert.deepEqual(rest, all.slice(after + 1));
  }
}

scenario(
  "getResponse",
  200,
  { title: "a stream cut at any event resumes after it, and equals the uncut one", script, tools },
  async (service) => {
    const all = await eventsOf(await respond(service, { input: "go", stream: true }));
    const { id } = checkStream(all);
    assert.ok(all.length > 30, `${all.length} events`);
    assert.deepEqual(await eventsOf(await getResponse(service, id, "?stream=true")), all);
    await assertResumes(service, id, all);
  },
);

test("getResponse: the same stream and object after a restart, from any event", async () => {
  const before = await startTestService({ script, tools });
  const all = await eventsOf(await respond(before, { input: "go", stream: true }));
  const { id } = checkStream(all);
  const text = await (await getResponse(before, id, "?stream=true")).text();
  const response = await (await getResponse(before, id)).text();
  // Another configuration since does not change what was.
  const config = { api_server: { tool_items: "none", show_reasoning: false, model_name: "other" } };
  await using after = await before.restart({ config });
  assert.equal(await (await getResponse(after, id, "?stream=true")).text(), text);
  assert.equal(await (await getResponse(after, id)).text(), response);
  await assertResumes(after, id, all);
});

const gate = createGate();
scenario(
  "getResponse",
  200,
  { title: "several clients follow a live stream, each from its own event", script: gate.script },
  async (service) => {
    const answer = await respond(service, { input: "go", stream: true, background: true });
    const runId = answer.headers.get("x-agent-run-id")!;
    const id = `resp_${runId.slice("run_".length)}`;
    await runEvent(service, runId, "message.delta");
    const queries = ["?stream=true", "?stream=true&starting_after=0", "?stream=true&starting_after=4"];
    const streams = await Promise.all(queries.map((query) => getResponse(service, id, query)));
    gate.open();
    const all = await eventsOf(answer);
    checkStream(all);
    assert.deepEqual(await Promise.all(streams.map(eventsOf)), [all, all.slice(1), all.slice(5)]);
  },
);

test("getResponse: a stream that shutdown cuts fails, and does not just end", async () => {
  const held = createGate();
  const before = await startTestService({ script: held.script });
  const answer = await respond(before, { input: "go", stream: true, background: true });
  const runId = answer.headers.get("x-agent-run-id")!;
  await runEvent(before, runId, "message.delta");
  const events = eventsOf(answer);
  await using after = await before.restart();
  const final = checkStream(await events);
  assert.equal(final.status, "failed");
  assert.equal(final.output[0]?.status, "completed");
  assert.deepEqual(await objectOf(await getResponse(after, final.id)), final);
});

scenario("getResponse", 400, { title: "a cursor beyond the last event", script }, async (service) => {
  const all = await eventsOf(await respond(service, { input: "go", stream: true, agent: { toolsets: [] } }));
  const { id } = checkStream(all);
  const beyond = await getResponse(service, id, `?stream=true&starting_after=${all.length}`);
  const error = await assertError(beyond, 400, "invalid_cursor");
  assert.equal(error.param, "starting_after");
  for (const query of ["?stream=true&starting_after=-1", "?stream=true&starting_after=x", "?stream=maybe"]) {
    await assertError(await getResponse(service, id, query), 400, "invalid_request");
  }
});

async function forget(service: TestService, response: ResponseObject, ...seqs: number[]): Promise<void> {
  const { run_id: id } = response.agent!;
  await service.service.store.write((tx) =>
    tx.db.deleteFrom("events").where("run_id", "=", id).where("run_seq", "in", seqs).execute(),
  );
}

scenario(
  "getResponse",
  200,
  { title: "without its first events, the response still says how it ended", script, tools },
  async (service) => {
    const whole = await responseOf(service, { input: "go", metadata: { a: "b" } });
    await forget(service, whole, 1, 2, 3, 4);
    const rest = await objectOf(await getResponse(service, whole.id));
    assert.equal(outputText(rest), "All done.");
    assert.deepEqual({ ...rest, output: [] }, { ...whole, output: [] });
  },
);

scenario("getResponse", 410, { title: "some events have expired" }, async (service) => {
  const response = await responseOf(service, { input: "hi" });
  await forget(service, response, 3);
  const stream = await getResponse(service, response.id, "?stream=true");
  await assertError(stream, 410, "run_events_expired");
  await forget(service, response, 1, 2, 4, 5, 6);
  await assertError(await getResponse(service, response.id), 410, "run_events_expired");
});

const many = createGate();
scenario(
  "getResponse",
  429,
  {
    title: "more followers than a run may have",
    script: many.script,
    config: { limits: { max_subscribers_per_run: 2 } },
  },
  async (service) => {
    const { id } = await responseOf(service, { input: "hi", background: true });
    const one = await getResponse(service, id, "?stream=true");
    const two = await getResponse(service, id, "?stream=true");
    const third = await getResponse(service, id, "?stream=true");
    assert.equal(third.headers.get("retry-after"), "5");
    await assertError(third, 429, "too_many_subscribers");
    assert.equal((await getResponse(service, id)).status, 200);
    many.open();
    await Promise.all([eventsOf(one), eventsOf(two)]);
    assert.equal((await getResponse(service, id, "?stream=true")).status, 200);
  },
);
