import assert from "node:assert/strict";
import { eventsOf, respond } from "../../harness/responses.ts";
import { scenario } from "../../harness/scenario.ts";

scenario("createResponse", 200, { title: "text in, text out" }, async (service) => {
  const response = await respond(service, { model: "gpt-4o", input: "hi" });
  const body = await response.json();
  assert.equal(response.status, 200, JSON.stringify(body));
  assert.equal(body.status, "completed");
  assert.equal(body.output[0].content[0].text, "hello");
  const got = await service.request(`/v1/responses/${body.id}`);
  assert.deepEqual(await got.json(), body);
});

scenario("createResponse", 200, { title: "as a stream" }, async (service) => {
  const response = await respond(service, { model: "gpt-4o", input: "hi", stream: true });
  assert.equal((await eventsOf(response)).at(-1)?.type, "response.completed");
});
