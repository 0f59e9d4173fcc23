import assert from "node:assert/strict";
import { responseOf } from "../../harness/responses.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, type TestService } from "../../harness/service.ts";

const LIST = "listResponseInputItems";
const list = (service: TestService, id: string, query = "") =>
  service.request(`/v1/responses/${id}/input_items${query}`);

scenario(LIST, 200, { title: "a text is one user message" }, async (service) => {
  const { id } = await responseOf(service, { input: "hi" });
  const answer = await list(service, id);
  assert.equal(answer.status, 200);
  const body = await answer.json();
  const [item] = body.data;
  assert.match(item.id, /^msg_/);
  assert.deepEqual(body, {
    object: "list",
    data: [
      {
        id: item.id,
        type: "message",
        role: "user",
        status: "completed",
        content: [{ type: "input_text", text: "hi" }],
      },
    ],
    first_id: item.id,
    last_id: item.id,
    has_more: false,
  });
});

scenario(LIST, 200, { title: "lists all items with their ids, newest first, in pages" }, async (service) => {
  const input = [
    { role: "user", content: "a", id: "msg_own" },
    { role: "assistant", content: "b" },
    { type: "function_call", call_id: "c1", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "c1", output: "x" },
    { type: "reasoning", summary: [] },
    { role: "user", content: [{ type: "input_text", text: "c" }] },
  ];
  const { id } = await responseOf(service, { input });
  const whole = await (await list(service, id, "?order=asc")).json();
  assert.deepEqual(
    whole.data.map((item: { type: string; id: string }) => [item.type, item.id.split("_")[0]]),
    [
      ["message", "msg"],
      ["message", "msg"],
      ["function_call", "fc"],
      ["function_call_output", "fco"],
      ["reasoning", "rs"],
      ["message", "msg"],
    ],
  );
  assert.equal(whole.data[0].id, "msg_own");
  assert.equal(whole.data[1].content[0].type, "output_text");
  const newestFirst = [];
  let query = "?limit=2";
  for (;;) {
    const page = await (await list(service, id, query)).json();
    newestFirst.push(...page.data);
    assert.equal(page.first_id, page.data[0].id);
    assert.equal(page.last_id, page.data.at(-1).id);
    if (!page.has_more) break;
    query = `?limit=2&after=${page.last_id}`;
  }
  assert.deepEqual(newestFirst, whole.data.toReversed());
  const past = await (await list(service, id, `?after=${whole.data[0].id}`)).json();
  assert.deepEqual(past, { object: "list", data: [], first_id: null, last_id: null, has_more: false });
});

scenario(LIST, 400, { title: "invalid page parameters" }, async (service) => {
  const { id } = await responseOf(service, { input: "hi" });
  for (const query of ["?limit=0", "?limit=101", "?limit=x", "?order=up"]) {
    await assertError(await list(service, id, query), 400, "invalid_request");
  }
  const error = await assertError(await list(service, id, "?after=msg_none"), 400, "invalid_cursor");
  assert.equal(error.param, "after");
});

const OTHER = "another-key-0123456789";
const keys = [
  { key: KEY, name: "a", scopes: ["admin"] },
  { key: OTHER, name: "b", scopes: ["admin"] },
];
scenario(LIST, 404, { title: "an unknown response, or another key's", keys }, async (service) => {
  const { id } = await responseOf(service, { input: "hi" });
  const headers = { authorization: `Bearer ${OTHER}` };
  const other = await service.request(`/v1/responses/${id}/input_items`, { headers });
  await assertError(other, 404, "response_not_found");
  await assertError(await list(service, "resp_none"), 404, "response_not_found");
});
