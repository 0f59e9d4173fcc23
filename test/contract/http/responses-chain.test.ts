import assert from "node:assert/strict";
import type { ResponseObject } from "../../../generated/http/client/types.gen.ts";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import {
  checkStream,
  eventsOf,
  getResponse,
  outputText,
  respond,
  responseOf,
} from "../../harness/responses.ts";
import { createGate, runEvent } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, type TestService } from "../../harness/service.ts";

const CREATE = "createResponse";

/** Says all that the user has said so far, and who else spoke. */
const recall: Script = ({ messages, instructions }) => ({
  text: [
    ...(instructions.includes("SHOUT") ? ["!"] : []),
    ...messages.map((message) => (message.role === "user" ? message.text : message.role)),
  ].join(" "),
});

const ask = (service: TestService, input: string, previous?: string, more: object = {}) =>
  responseOf(service, {
    input,
    ...(previous === undefined ? {} : { previous_response_id: previous }),
    ...more,
  });
const sessionOf = (response: ResponseObject) => response.agent?.session_id;

scenario(
  CREATE,
  200,
  {
    title: "a response continues a stored one in its session; instructions are not inherited",
    script: recall,
  },
  async (service) => {
    const one = await ask(service, "a", undefined, { instructions: "SHOUT" });
    assert.equal(outputText(one), "! a");
    const two = await ask(service, "b", one.id);
    assert.equal(outputText(two), "a assistant b");
    assert.equal(two.previous_response_id, one.id);
    assert.equal(sessionOf(two), sessionOf(one));
    const three = checkStream(
      await eventsOf(await respond(service, { input: "c", previous_response_id: two.id, stream: true })),
    );
    assert.equal(outputText(three), "a assistant b assistant c");
  },
);

scenario(
  CREATE,
  200,
  { title: "a second request from the same response starts a branch", script: recall },
  async (service) => {
    const one = await ask(service, "a");
    const two = await ask(service, "b", one.id);
    const other = await ask(service, "x", one.id);
    assert.equal(outputText(other), "a assistant x");
    assert.notEqual(sessionOf(other), sessionOf(one));
    assert.equal(outputText(await ask(service, "y", other.id)), "a assistant x assistant y");
    assert.equal(outputText(await ask(service, "c", two.id)), "a assistant b assistant c");
    assert.equal(outputText(await ask(service, "z", one.id)), "a assistant z");
  },
);

scenario(
  CREATE,
  200,
  {
    title: "of concurrent requests from one response, one continues it and the others branch",
    script: recall,
  },
  async (service) => {
    const one = await ask(service, "a");
    const done = await Promise.all(["b", "c", "d", "e"].map((text) => ask(service, text, one.id)));
    assert.deepEqual(done.map(outputText).toSorted(), [
      "a assistant b",
      "a assistant c",
      "a assistant d",
      "a assistant e",
    ]);
    assert.equal(new Set(done.map(sessionOf)).size, done.length);
    assert.equal(done.filter((response) => sessionOf(response) === sessionOf(one)).length, 1);
  },
);

scenario(
  CREATE,
  200,
  {
    title: "later messages of the session are not part of a response that continues an earlier one",
    script: recall,
  },
  async (service) => {
    const one = await ask(service, "a");
    const headers = { "x-agent-session-id": sessionOf(one)! };
    const chat = await service.chat({ messages: [{ role: "user", content: "aside" }] }, { headers });
    assert.equal(chat.status, 200, await chat.text());
    assert.equal(outputText(await ask(service, "b", one.id)), "a assistant b");
  },
);

const gate = createGate();
scenario(
  CREATE,
  200,
  {
    title: "the first request waits for a running response; further ones are refused",
    script: (state) => (state.user === "slow" ? gate.script(state) : recall(state)),
  },
  async (service) => {
    const one = await ask(service, "slow", undefined, { background: true });
    const next = await ask(service, "b", one.id, { background: true });
    assert.equal(next.status, "queued");
    const busy = await respond(service, { input: "c", previous_response_id: one.id });
    const error = await assertError(busy, 409, "session_busy");
    assert.equal(error.param, "previous_response_id");
    gate.open();
    await runEvent(service, next.agent!.run_id, "run.completed");
    const done = await (await getResponse(service, next.id)).json();
    assert.equal(outputText(done), "slow assistant b");
    assert.equal(outputText(await ask(service, "c", one.id)), "slow assistant c");
  },
);

scenario(
  CREATE,
  200,
  { title: "store: false continues a response and leaves it unchanged", script: recall },
  async (service) => {
    const one = await ask(service, "a");
    const aside = await ask(service, "x", one.id, { store: false });
    assert.equal(outputText(aside), "a assistant x");
    assert.notEqual(sessionOf(aside), sessionOf(one));
    const two = await ask(service, "b", one.id);
    assert.equal(outputText(two), "a assistant b");
    assert.equal(sessionOf(two), sessionOf(one));
  },
);

scenario(
  CREATE,
  200,
  { title: "a conversation by the client's own name, as a string or an object", script: recall },
  async (service) => {
    const one = await ask(service, "a", undefined, { conversation: "trip" });
    assert.deepEqual(one.conversation, { id: "trip" });
    const answer = await respond(service, { input: "b", conversation: { id: "trip" } });
    assert.equal(answer.headers.get("x-agent-session-key"), "trip");
    const two: ResponseObject = await answer.json();
    assert.equal(outputText(two), "a assistant b");
    assert.equal(sessionOf(two), sessionOf(one));
    assert.equal(outputText(await ask(service, "c", undefined, { conversation: "other" })), "c");
    const asHeader = { headers: { "x-agent-session-key": "trip" } };
    assert.equal(
      outputText(await responseOf(service, { input: "d" }, asHeader)),
      "a assistant b assistant d",
    );
  },
);

scenario(
  CREATE,
  200,
  {
    title: "session headers continue a session, with the whole conversation or only the new part",
    script: recall,
  },
  async (service) => {
    const options = { headers: { "x-agent-session-id": "s1" } };
    const one = await responseOf(service, { input: "a" }, options);
    assert.equal(sessionOf(one), "s1");
    assert.equal(outputText(await responseOf(service, { input: "b" }, options)), "a assistant b");
    const input = [
      { role: "user", content: "a" },
      { role: "assistant", content: "a" },
      { role: "user", content: "c" },
    ];
    const three = await responseOf(service, { input, agent: { session_id: "s1" } });
    assert.equal(outputText(three), "a assistant b assistant c");
  },
);

scenario(
  CREATE,
  200,
  {
    title: "above the limit, the least recently used response is deleted first",
    script: recall,
    config: { limits: { max_stored_responses: 3 } },
  },
  async (service) => {
    const [one, two, three] = [await ask(service, "1"), await ask(service, "2"), await ask(service, "3")];
    await getResponse(service, one.id);
    const four = await ask(service, "4", two.id);
    const known = async () => {
      const all = await Promise.all([one, two, three, four].map(({ id }) => getResponse(service, id)));
      return all.map(({ status }) => status);
    };
    assert.deepEqual(await known(), [200, 200, 404, 200]);
  },
);

const slow = createGate();
scenario(
  CREATE,
  200,
  {
    title: "a running response is kept although it is the oldest; each key has its own limit",
    script: (state) => (state.user === "slow" ? slow.script(state) : recall(state)),
    config: { limits: { max_stored_responses: 1 } },
    keys: [
      { key: KEY, name: "a", scopes: ["admin"] },
      { key: "another-key-0123456789", name: "b", scopes: ["admin"] },
    ],
  },
  async (service) => {
    const one = await ask(service, "slow", undefined, { background: true });
    const two = await ask(service, "2");
    const three = await ask(service, "3");
    const other = { headers: { authorization: "Bearer another-key-0123456789" } };
    await responseOf(service, { input: "4" }, other);
    const status = async ({ id }: ResponseObject) => (await getResponse(service, id)).status;
    assert.deepEqual([await status(one), await status(two), await status(three)], [200, 404, 200]);
    slow.open();
  },
);

scenario(
  CREATE,
  200,
  {
    title: "an Idempotency-Key repeats a request whose previous response was continued since",
    script: recall,
  },
  async (service) => {
    const one = await ask(service, "a");
    const body = { input: "b", previous_response_id: one.id };
    const key = { headers: { "idempotency-key": "k" } };
    const two = await responseOf(service, body, key);
    await service.request(`/v1/responses/${one.id}`, { method: "DELETE" });
    const again = await respond(service, body, key);
    assert.equal(again.headers.get("idempotency-replayed"), "true");
    assert.deepEqual(await again.json(), two);
    const sessions = await service.service.store.read.selectFrom("sessions").select("id").execute();
    assert.equal(sessions.length, 1);
  },
);

scenario(
  CREATE,
  200,
  { title: "a request can refer to items of stored responses", script: recall },
  async (service) => {
    const one = await ask(service, "a");
    const said = one.output[0]!.id;
    const list = await (await service.request(`/v1/responses/${one.id}/input_items`)).json();
    const input = [
      { type: "item_reference", id: list.data[0].id },
      { type: "item_reference", id: said },
      { type: "item_reference", id: "rs_anything" },
      { role: "user", content: "b" },
    ];
    const two = await responseOf(service, { input });
    assert.equal(outputText(two), "a assistant b");
    const unknown = [{ type: "item_reference", id: "msg_nobody" }];
    const error = await assertError(await respond(service, { input: unknown }), 400, "invalid_request");
    assert.equal(error.param, "input[0].id");
  },
);
