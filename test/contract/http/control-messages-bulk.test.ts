import assert from "node:assert/strict";
import type { BulkResult } from "../../../generated/http/client/types.gen.ts";
import { list } from "../../harness/control.ts";
import { addMessage, addMessages, getMessage, idsOf, messageEvents } from "../../harness/outbox.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, type TestService } from "../../harness/service.ts";

const OTHER = "another-key-0123456789";
const twoOwners = [
  { key: KEY, name: "laptop", owner: "default", scopes: ["admin"] },
  { key: OTHER, name: "b", scopes: ["read", "messages"] },
];
async function bulk(service: TestService, path: string, body: unknown): Promise<BulkResult> {
  const response = await post(service, `/v1/outbox/${path}`, body);
  assert.equal(response.status, 200, await response.clone().text());
  return (await response.json()) as BulkResult;
}

scenario(
  "retryMessages",
  200,
  { title: "retry-all of 2,500 dead takes three calls and touches each once", keys: twoOwners },
  async (service) => {
    const ids = await addMessages(service, 2_500, { status: "dead" });
    const theirs = await addMessage(service, { status: "dead", owner: "b" });
    const results: BulkResult[] = [];
    do results.push(await bulk(service, "retry", { status: ["dead"], platform: "telegram" }));
    while (results.at(-1)?.has_more);
    assert.deepEqual(
      results.map(({ matched, done, refused, has_more: more }) => [matched, done, refused.length, more]),
      [
        [1_000, 1_000, 0, true],
        [1_000, 1_000, 0, true],
        [500, 500, 0, false],
      ],
    );
    const touched = (await messageEvents(service)).filter((event) => event.endsWith(" laptop"));
    assert.deepEqual(touched.map((event) => event.split(" ")[0]).toSorted(), ids.toSorted());
    assert.equal((await service.service.store.find("outbox", { id: theirs }))?.status, "dead");
  },
);

scenario("retryMessages", 200, { title: "what cannot change is refused one by one" }, async (service) => {
  const dead = await addMessage(service, { status: "dead" });
  const done = await addMessage(service, { status: "delivered" });
  const unknown = await addMessage(service, { status: "unknown" });
  const sending = await addMessage(service, { status: "leased" });
  const body = { ids: [dead, done, unknown, sending, "out_none", dead] };
  assert.deepEqual(await bulk(service, "retry", body), {
    matched: 4,
    done: 1,
    refused: [
      { id: done, code: "message_not_retryable" },
      { id: unknown, code: "message_not_retryable" },
      { id: sending, code: "message_being_sent" },
      { id: "out_none", code: "message_not_found" },
    ],
    has_more: false,
  });
  const accepted = { status: ["unknown"], accept_duplicate: true };
  assert.deepEqual((await bulk(service, "retry", accepted)).done, 1);
});

for (const operation of ["retryMessages", "dropMessages"] as const) {
  const path = operation === "retryMessages" ? "retry" : "drop";
  const empty = { title: "a bulk action without a filter is 400" };
  const refuse = async (service: TestService) => {
    const dead = await addMessage(service, { status: "dead" });
    for (const [body, param] of [
      [{}, "status"],
      [{ limit: 5 }, "status"],
      [{ platform: "telegram" }, "status"],
      [{ ids: [] }, "ids"],
      [{ status: [] }, "status"],
      [{ status: ["delivered"] }, "status[0]"],
      [{ ids: [dead], status: ["dead"] }, "status"],
      [{ ids: [dead], platform: "sms" }, "platform"],
    ] as const) {
      const response = await post(service, `/v1/outbox/${path}`, body);
      assert.equal((await assertError(response, 400, "invalid_request")).param, param, JSON.stringify(body));
    }
    assert.equal((await getMessage(service, dead)).status, "dead");
  };
  const repeated = { title: "another request with the same Idempotency-Key is a conflict" };
  const conflict = async (service: TestService) => {
    const [first, second] = await addMessages(service, 2, { status: "dead" });
    const key = { "idempotency-key": "k" };
    const send = (ids: unknown[]) => post(service, `/v1/outbox/${path}`, { ids }, key);
    const result = await (await send([first])).json();
    const again = await send([first]);
    assert.equal(again.headers.get("idempotency-replayed"), "true");
    assert.deepEqual([await again.json(), result.done], [result, 1]);
    await assertError(await send([second]), 409, "idempotency_key_conflict");
  };
  if (operation === "retryMessages") {
    scenario("retryMessages", 400, empty, refuse);
    scenario("retryMessages", 409, repeated, conflict);
  } else {
    scenario("dropMessages", 400, empty, refuse);
    scenario("dropMessages", 409, repeated, conflict);
  }
}

scenario("retryMessages", 400, { title: "unknown ones need accept_duplicate" }, async (service) => {
  const response = await post(service, "/v1/outbox/retry", { status: ["dead", "unknown"] });
  assert.equal((await assertError(response, 400, "invalid_request")).param, "accept_duplicate");
});

scenario(
  "dropMessages",
  200,
  { title: "a dry run leaves the database, the outbox and the feed unchanged, and consumes no key" },
  async (service) => {
    const [first, second] = await addMessages(service, 2, { status: "dead" });
    const { created_at: at } = await getMessage(service, first ?? "");
    const before = await messageEvents(service);
    const body = { status: ["dead"], from: at - 1, to: at + 1, limit: 1 };
    const key = { "idempotency-key": "k" };
    const tried = await post(service, "/v1/outbox/drop?dry_run=true", body, key);
    assert.equal(tried.headers.get("x-agent-dry-run"), "true");
    assert.deepEqual(await tried.json(), { matched: 1, done: 1, refused: [], has_more: true });
    assert.deepEqual(await messageEvents(service), before);
    const done = await post(service, "/v1/outbox/drop", { ...body, limit: 2 }, key);
    assert.deepEqual([done.headers.get("x-agent-dry-run"), (await done.json()).done], [null, 2]);
    assert.deepEqual(idsOf(await list(service, "/v1/outbox?status=dropped")).toSorted(), [first, second]);
  },
);
