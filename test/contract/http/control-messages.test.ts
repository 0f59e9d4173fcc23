import { deliveryRow, occurrenceRow } from "../../unit/store/rows.ts";
import assert from "node:assert/strict";
import type { FeedEvent, Message } from "../../../generated/http/client/types.gen.ts";
import { list, storedEvents } from "../../harness/control.ts";
import { addMessage, CHAT, getMessage, idsOf, messageEvents, messageWith } from "../../harness/outbox.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, type TestService } from "../../harness/service.ts";

const OTHER = "another-key-0123456789";
const other = { authorization: `Bearer ${OTHER}` };
const twoOwners = [
  { key: KEY, name: "laptop", owner: "default", scopes: ["admin"] },
  { key: OTHER, name: "b", scopes: ["read", "messages"] },
];
scenario(
  "listMessages",
  200,
  { title: "filters by status, platform, reference and time combine" },
  async (service) => {
    const due = await addMessage(service);
    const dead = await addMessage(service, { status: "dead", target: "sms:+15550100", ref: "dlv_1" });
    const unknown = await addMessage(service, { status: "unknown", target: "log", ref: "occ_1" });
    const sending = await addMessage(service, { status: "leased", target: "slack:C1" });
    const found = async (query: string) => idsOf(await list<Message>(service, `/v1/outbox?limit=1&${query}`));
    assert.deepEqual(await found(""), [sending, unknown, dead, due]);
    assert.deepEqual(await found("status=sending,dead,unknown,dead"), [sending, unknown, dead]);
    assert.deepEqual(await found("status=due"), [due]);
    assert.deepEqual(await found("platform=sms,telegram"), [dead, due]);
    assert.deepEqual(await found("platform=tele"), []);
    assert.deepEqual(await found(`target=${encodeURIComponent(CHAT)}`), [due]);
    assert.deepEqual(await found("ref=dlv_1&status=dead"), [dead]);
    const { created_at: at } = await getMessage(service, dead);
    assert.ok((await found(`from=${at}&to=${at + 0.001}`)).includes(dead));
    assert.deepEqual(await found(`to=${at - 1}`), []);
    const rows = await list<Message>(service, "/v1/outbox");
    assert.deepEqual(
      rows.map(({ delivery_id: delivery, occurrence_id: occurrence, run_id: run }) => [
        run,
        delivery,
        occurrence,
      ]),
      [
        ["run_1", null, null],
        [null, null, "occ_1"],
        [null, "dlv_1", null],
        ["run_1", null, null],
      ],
    );
    assert.deepEqual([rows[2]?.attempt_log, rows[2]?.text, rows[2]?.last_error], [null, null, "It said no."]);
  },
);

scenario(
  "listMessages",
  200,
  { title: "a key sees the messages of its owner only", keys: twoOwners },
  async (service) => {
    const mine = await addMessage(service);
    const theirs = await addMessage(service, { owner: "b", status: "dead" });
    assert.deepEqual(idsOf(await list(service, "/v1/outbox")), [mine]);
    assert.deepEqual(idsOf(await list(service, "/v1/outbox?status=dead", other)), [theirs]);
    assert.deepEqual(idsOf(await list(service, "/v1/outbox", { "x-agent-owner": "*" })), [theirs, mine]);
  },
);

scenario("listMessages", 400, { title: "an unknown status or cursor" }, async (service) => {
  const wrong = await assertError(
    await service.request("/v1/outbox?status=leased"),
    400,
    "unsupported_parameter",
  );
  assert.equal(wrong.param, "status");
  await assertError(await service.request("/v1/outbox?after=run_1"), 400, "invalid_cursor");
});

scenario("getMessage", 200, { title: "a dead message shows every attempt and a hint" }, async (service) => {
  const { store } = service.service;
  const message = {
    owner: "default",
    target: "carrier_pigeon:home",
    payload: { text: "coo" },
    maxAttempts: 1,
  };
  const id = await store.write((tx) => store.outbox.enqueue(tx, { ...message, ref: "run_1" }));
  await messageWith(service, id, "dead");
  assert.equal((await post(service, `/v1/outbox/${id}/retry`, {})).status, 200);
  let shown = await messageWith(service, id, "dead");
  while (shown.attempt_log?.length !== 2) shown = await messageWith(service, id, "dead");
  assert.deepEqual([shown.run_id, shown.platform, shown.attempts], ["run_1", "carrier_pigeon", 1]);
  for (const attempt of shown.attempt_log ?? []) {
    assert.match(attempt.error ?? "", /no delivery target carrier_pigeon/);
    assert.ok(attempt.outcome === "retry" && (attempt.ended_at ?? 0) >= attempt.started_at);
  }
  assert.match(
    shown.hint ?? "",
    new RegExp(`Fix what the error names, then run .POST /v1/outbox/${id}/retry`),
  );
  assert.ok(shown.ended_at !== null && shown.due_at === null);
});

scenario(
  "getMessage",
  200,
  { title: "a message behind another one of its chat names it" },
  async (service) => {
    const { store } = service.service;
    const first = await addMessage(service);
    const second = await store.write((tx) =>
      store.outbox.enqueue(tx, { owner: "default", target: CHAT, payload: { text: "later" } }),
    );
    const shown = await getMessage(service, second);
    assert.deepEqual([shown.status, shown.waits_for, shown.ref], ["due", first, null]);
    assert.deepEqual((await list<Message>(service, "/v1/outbox?limit=1"))[0]?.waits_for, first);
  },
);

scenario("getMessage", 200, { title: "the text is shown on request, without secrets" }, async (service) => {
  const id = await addMessage(service, { text: "token sk-abcdefghijklmnopqrstuvwx0123456789 words" });
  assert.equal((await getMessage(service, id)).text, null);
  const { text } = await getMessage(service, id, "?include=text");
  assert.match(text ?? "", /^token .* words$/);
  assert.doesNotMatch(text ?? "", /sk-abcdef/);
  const [listed] = await list<Message>(service, "/v1/outbox?include=text");
  assert.equal(listed?.text, text);
  const { store } = service.service;
  const payload = { id: "evt_1", url: "https://a.example/x", secret: "whsec_canary", body: '{"type":"run"}' };
  const hook = await store.write((tx) =>
    store.outbox.enqueue(tx, {
      owner: "default",
      target: "webhook:a.example",
      payload,
      availableAtMs: tx.nowMs + 1e7,
    }),
  );
  assert.equal((await getMessage(service, hook, "?include=text")).text, '{"type":"run"}');
});

scenario(
  "getMessage",
  403,
  {
    title: "a key with scope read gets 403 for include=text",
    keys: [{ key: KEY, name: "default", scopes: ["read"] }],
  },
  async (service) => {
    const id = await addMessage(service);
    await getMessage(service, id);
    for (const path of [`/v1/outbox/${id}?include=text`, "/v1/outbox?include=text"]) {
      const error = await assertError(await service.request(path), 403, "insufficient_scope");
      assert.equal(error.param, "include");
    }
    await assertError(await post(service, `/v1/outbox/${id}/drop`, {}), 403, "insufficient_scope");
  },
);

scenario("getMessage", 400, { title: "an unknown part" }, async (service) => {
  await assertError(await service.request("/v1/outbox/x?include=payload"), 400, "unsupported_parameter");
});

for (const operation of ["getMessage", "retryMessage", "dropMessage"] as const) {
  const what = { title: "an unknown message and another owner's look the same", keys: twoOwners };
  const run = async (service: TestService) => {
    const id = await addMessage(service);
    for (const name of ["out_none", id]) {
      const verb = operation === "retryMessage" ? "retry" : "drop";
      const response =
        operation === "getMessage"
          ? await service.request(`/v1/outbox/${name}`, { headers: other })
          : await post(service, `/v1/outbox/${name}/${verb}`, {}, other);
      await assertError(response, 404, "message_not_found");
    }
    assert.equal((await getMessage(service, id)).status, "due");
  };
  if (operation === "getMessage") scenario("getMessage", 404, what, run);
  else if (operation === "retryMessage") scenario("retryMessage", 404, what, run);
  else scenario("dropMessage", 404, what, run);
}

/** An occurrence whose message did not arrive. */
async function addFailedOccurrence(
  service: TestService,
  target = CHAT,
): Promise<{ occurrence: string; message: string }> {
  const occurrence = "occ_0000000000000000000000000a";
  const message = await addMessage(service, { status: "dead", ref: occurrence, target });
  const row = occurrenceRow({
    id: occurrence,
    job_id: "0123456789ab",
    run_id: "run_7",
    delivery_status: "failed",
    delivery_error: "It said no.",
  });
  await service.service.store.write((tx) => tx.insert("occurrences", [row]));
  return { occurrence, message };
}

scenario(
  "retryMessage",
  200,
  { title: "retry makes it due and settles the delivery or occurrence that waits for it" },
  async (service) => {
    const { store } = service.service;
    const { occurrence, message: id } = await addFailedOccurrence(service);
    const shown = (await (await post(service, `/v1/outbox/${id}/retry`, {})).json()) as Message;
    assert.deepEqual([shown.occurrence_id, shown.run_id], [occurrence, "run_7"]);
    assert.deepEqual([shown.ended_at, shown.status === "due" || shown.status === "sending"], [null, true]);
    assert.equal((await store.find("occurrences", { id: occurrence }))?.delivery_status, "pending");
    const actors = (await messageEvents(service)).filter((event) => event.endsWith(" default"));
    assert.deepEqual(actors, [`${id} message.updated due default`]);
  },
);

scenario(
  "retryMessage",
  200,
  { title: "a retried message that arrives ends the delivery and the occurrence that wait for it" },
  async (service) => {
    const { store } = service.service;
    const { occurrence } = await addFailedOccurrence(service, "log");
    const delivery = deliveryRow({ status: "accepted" });
    await store.write((tx) => tx.insert("deliveries", [delivery]));
    await addMessage(service, { target: "log", status: "dead", ref: delivery.id });
    for (const message of await list<Message>(service, "/v1/outbox?status=dead")) {
      await post(service, `/v1/outbox/${message.id}/retry`, {});
      await messageWith(service, message.id, "delivered");
    }
    const { status, ended_at: endedAt } =
      (await store.find("deliveries", { id: delivery.id })) ?? assert.fail();
    assert.ok(status === "delivered" && endedAt !== null, status);
    assert.equal((await store.find("occurrences", { id: occurrence }))?.delivery_status, "delivered");
    const told = await storedEvents<FeedEvent>(service, "?types=delivery.updated,occurrence.updated");
    assert.deepEqual(
      new Set(told.map(({ data }) => data.id)),
      new Set([delivery.id, occurrence]),
      "the feed says so",
    );
  },
);

scenario("retryMessage", 200, { title: "the gateway sends a retried message at once" }, async (service) => {
  const id = await addMessage(service, { target: "log", status: "dead" });
  assert.equal((await post(service, `/v1/outbox/${id}/retry`, undefined)).status, 200);
  await messageWith(service, id, "delivered");
  const events = await messageEvents(service);
  assert.deepEqual(
    events.map((event) => event.split(" ").slice(1).join(" ")),
    [
      "message.created due null",
      "message.updated due default",
      "message.updated sending null",
      "message.updated delivered null",
    ],
  );
});

scenario(
  "retryMessage",
  409,
  { title: "a delivered message cannot be retried, nor one that is being sent" },
  async (service) => {
    for (const [status, code] of [
      ["delivered", "message_not_retryable"],
      ["dropped", "message_not_retryable"],
      ["leased", "message_being_sent"],
    ] as const) {
      const id = await addMessage(service, { status });
      await assertError(await post(service, `/v1/outbox/${id}/retry`, {}), 409, code);
    }
  },
);

scenario("retryMessage", 409, { title: "an unknown one needs accept_duplicate" }, async (service) => {
  const id = await addMessage(service, { status: "unknown" });
  const error = await assertError(
    await post(service, `/v1/outbox/${id}/retry`, {}),
    409,
    "message_not_retryable",
  );
  assert.equal(error.param, "accept_duplicate");
  assert.match((await getMessage(service, id)).hint ?? "", /with accept_duplicate/);
  const retried = await post(service, `/v1/outbox/${id}/retry`, { accept_duplicate: true });
  assert.equal(retried.status, 200);
});

scenario("retryMessage", 400, { title: "an unknown body field is named" }, async (service) => {
  const response = await post(service, "/v1/outbox/out_1/retry", { accept: true });
  assert.equal((await assertError(response, 400, "invalid_request")).param, "accept");
});

scenario(
  "retryMessage",
  200,
  { title: "a repeated request with the same Idempotency-Key acts once" },
  async (service) => {
    const id = await addMessage(service, { status: "dead" });
    const again = () => post(service, `/v1/outbox/${id}/retry`, {}, { "idempotency-key": "k" });
    const first = await again();
    assert.equal(first.headers.get("idempotency-replayed"), null);
    const second = await again();
    assert.deepEqual([second.status, second.headers.get("idempotency-replayed")], [200, "true"]);
    const changes = (await messageEvents(service)).filter((event) => event.endsWith(" default"));
    assert.equal(changes.length, 1);
    const conflict = await post(
      service,
      `/v1/outbox/${id}/retry`,
      { accept_duplicate: true },
      { "idempotency-key": "k" },
    );
    await assertError(conflict, 409, "idempotency_key_conflict");
  },
);

scenario(
  "dropMessage",
  200,
  { title: "a dropped message is never sent, and the feed names who did it" },
  async (service) => {
    const id = await addMessage(service);
    const dropped = (await (await post(service, `/v1/outbox/${id}/drop`, undefined)).json()) as Message;
    assert.deepEqual([dropped.status, dropped.hint, dropped.due_at], ["dropped", null, null]);
    const headers = { accept: "application/json" };
    let events: FeedEvent[] = [];
    // In PostgreSQL an event can be read once all older transactions of the server have ended.
    while (events.length < 2) events = await list<FeedEvent>(service, "/v1/events?types=message.*", headers);
    assert.deepEqual(events.at(-1)?.data, {
      object: "agent.message",
      id,
      platform: "telegram",
      status: "dropped",
      ref: "run_1",
    });
    assert.deepEqual([events.at(-1)?.type, events.at(-1)?.actor], ["message.updated", "default"]);
    assert.doesNotMatch(JSON.stringify(events), /private words|-1001/);
  },
);

scenario("dropMessage", 409, { title: "a message that is over cannot be dropped" }, async (service) => {
  for (const [status, code] of [
    ["delivered", "message_not_retryable"],
    ["leased", "message_being_sent"],
  ] as const) {
    const id = await addMessage(service, { status });
    await assertError(await post(service, `/v1/outbox/${id}/drop`, {}), 409, code);
  }
});

scenario("dropMessage", 400, { title: "an unknown parameter" }, async (service) => {
  const response = await post(service, "/v1/outbox/x/drop?reason=old", {});
  await assertError(response, 400, "unsupported_parameter");
});
