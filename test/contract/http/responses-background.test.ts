import assert from "node:assert/strict";
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
import { KEY, type TestService } from "../../harness/service.ts";

const background = { input: "hi", background: true };
const OTHER = "another-key-0123456789";
const twoKeys = [
  { key: KEY, name: "a", scopes: ["admin"] },
  { key: OTHER, name: "b", scopes: ["admin"] },
];
const cancel = (service: TestService, id: string, headers = {}) =>
  service.request(`/v1/responses/${id}/cancel`, { method: "POST", headers });
const remove = (service: TestService, id: string, headers = {}) =>
  service.request(`/v1/responses/${id}`, { method: "DELETE", headers });

const gate = createGate();
scenario(
  "createResponse",
  200,
  { title: "a background response is answered at once, and fetched until it completes", script: gate.script },
  async (service) => {
    const first = await responseOf(service, background);
    assert.ok(["queued", "in_progress"].includes(first.status));
    assert.equal(first.usage, null);
    assert.equal(first.background, true);
    await runEvent(service, first.agent!.run_id, "message.delta");
    const half = await objectOf(await getResponse(service, first.id));
    assert.equal(half.status, "in_progress");
    assert.equal(half.output[0]?.status, "in_progress");
    assert.match(outputText(half), /^before/);
    gate.open();
    await runEvent(service, first.agent!.run_id, "run.completed");
    const done = await objectOf(await getResponse(service, first.id));
    assert.equal(done.status, "completed");
    assert.equal(outputText(done), "before after");
    assert.ok(done.completed_at! >= done.created_at);
  },
);

const followed = createGate();
scenario(
  "createResponse",
  200,
  { title: "a background stream can be left and resumed", script: followed.script },
  async (service) => {
    const answer = await respond(service, { ...background, stream: true });
    const runId = answer.headers.get("x-agent-run-id")!;
    await answer.body!.cancel();
    followed.open();
    await runEvent(service, runId, "run.completed");
    const id = `resp_${runId.slice("run_".length)}`;
    const final = checkStream(await eventsOf(await getResponse(service, id, "?stream=true")));
    assert.equal(outputText(final), "before after");
  },
);

const stopped = createGate();
scenario(
  "cancelResponse",
  200,
  { title: "answers when the run has ended, and the same again", script: stopped.script },
  async (service) => {
    const { id, agent } = await responseOf(service, background);
    await runEvent(service, agent!.run_id, "message.delta");
    const response = await objectOf(await cancel(service, id));
    assert.equal(response.status, "cancelled");
    assert.match(outputText(response), /^before/);
    const run = await (await service.request(`/v1/runs/${agent!.run_id}`)).json();
    assert.equal(run.status, "cancelled");
    assert.deepEqual(await objectOf(await cancel(service, id)), response);
    assert.deepEqual(await objectOf(await getResponse(service, id)), response);
  },
);

const queue = createGate();
scenario(
  "cancelResponse",
  200,
  { title: "a queued response is cancelled before it starts", script: queue.script },
  async (service) => {
    const first = await responseOf(service, background);
    const second = await responseOf(service, { ...background, previous_response_id: first.id });
    assert.equal(second.status, "queued");
    const response = await objectOf(await cancel(service, second.id));
    assert.equal(response.status, "cancelled");
    assert.deepEqual(response.output, []);
    queue.open();
  },
);

const waiting = createGate();
scenario(
  "cancelResponse",
  200,
  { title: "a client that streams the response sees it end as cancelled", script: waiting.script },
  async (service) => {
    const answer = await respond(service, { input: "hi", stream: true });
    const runId = answer.headers.get("x-agent-run-id")!;
    await runEvent(service, runId, "message.delta");
    const events = eventsOf(answer);
    await cancel(service, `resp_${runId.slice("run_".length)}`);
    const final = checkStream(await events);
    assert.equal(final.status, "cancelled");
  },
);

scenario("cancelResponse", 409, { title: "a completed response cannot be cancelled" }, async (service) => {
  const { id } = await responseOf(service, { input: "hi" });
  const answer = await cancel(service, id);
  assert.equal(answer.headers.get("x-should-retry"), "false");
  const error = await assertError(answer, 409, "response_not_cancellable");
  assert.match(error.message, /completed/);
});

scenario("deleteResponse", 200, { title: "the response is deleted, its run is not" }, async (service) => {
  const { id, agent } = await responseOf(service, { input: "hi" });
  const answer = await remove(service, id);
  assert.equal(answer.status, 200);
  assert.deepEqual(await answer.json(), { id, object: "response", deleted: true });
  await assertError(await getResponse(service, id), 404, "response_not_found");
  const next = await respond(service, { input: "b", previous_response_id: id });
  await assertError(next, 404, "previous_response_not_found");
  assert.equal((await service.request(`/v1/runs/${agent!.run_id}`)).status, 200);
});

const deleted = createGate();
scenario(
  "deleteResponse",
  200,
  { title: "a running response is stopped", script: deleted.script },
  async (service) => {
    const { id, agent } = await responseOf(service, background);
    await runEvent(service, agent!.run_id, "message.delta");
    assert.equal((await remove(service, id)).status, 200);
    await runEvent(service, agent!.run_id, "run.cancelled");
  },
);

scenario(
  "deleteResponse",
  404,
  { title: "an unknown response, or another key's", keys: twoKeys },
  async (service) => {
    const { id } = await responseOf(service, { input: "hi" });
    const other = await remove(service, id, { authorization: `Bearer ${OTHER}` });
    await assertError(other, 404, "response_not_found");
    assert.equal((await getResponse(service, id)).status, 200);
    assert.equal((await remove(service, id)).status, 200);
    await assertError(await remove(service, id), 404, "response_not_found");
  },
);

scenario(
  "cancelResponse",
  404,
  { title: "an unknown response, or another key's", keys: twoKeys },
  async (service) => {
    const { id } = await responseOf(service, { input: "hi" });
    const other = await cancel(service, id, { authorization: `Bearer ${OTHER}` });
    await assertError(other, 404, "response_not_found");
    await assertError(await cancel(service, "resp_none"), 404, "response_not_found");
  },
);

scenario(
  "getResponse",
  404,
  { title: "an unknown response, or another key's", keys: twoKeys },
  async (service) => {
    const { id } = await responseOf(service, { input: "hi" });
    const headers = { authorization: `Bearer ${OTHER}` };
    await assertError(await service.request(`/v1/responses/${id}`, { headers }), 404, "response_not_found");
    await assertError(await getResponse(service, "resp_none", "?stream=true"), 404, "response_not_found");
  },
);
