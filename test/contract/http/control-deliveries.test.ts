/** Webhook deliveries over the control API. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Delivery, FeedEvent, Run, WebhookResult } from "../../../generated/http/client/types.gen.ts";
import { list } from "../../harness/control.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";
import { SECRET, WebhookService, withReceiver } from "../../harness/webhook.ts";

const OTHER = "another-key-0123456789";
const READER = "reading-key-0123456789";
const other = { authorization: `Bearer ${OTHER}` };
const HOOKS = "hooks-key-0123456789ab";
const hooks = { authorization: `Bearer ${HOOKS}` };
const reader = { authorization: `Bearer ${READER}` };
const keys = [
  { key: KEY, name: "a", scopes: ["admin"] },
  { key: OTHER, name: "b", scopes: ["admin"] },
  { key: READER, name: "r", owner: "a", scopes: ["read"] },
  { key: HOOKS, name: "h", owner: "a", scopes: ["read", "webhooks"] },
];
const routes = {
  hook: { owner: "a", events: ["push", "release"], prompt: "Look at {ref}." },
  theirs: { owner: "b" },
};
const PATH = "/v1/webhooks/deliveries";

/** Sends an event and waits until its delivery has ended. */
async function send(
  service: TestService,
  route: string,
  event: string,
  body: object = {},
): Promise<Delivery> {
  const receiver = new WebhookService(service);
  const known = (await receiver.deliveries()).length;
  await receiver.post(route, body, {
    headers: { "x-github-event": event, "x-request-id": `${event}-${known}` },
  });
  const rows = await receiver.recorded(
    (all) => all.length > known && all.every((row) => row.ended_at !== null),
  );
  return read(service, rows.at(-1)?.id ?? "", { "x-agent-owner": route === "hook" ? "a" : "b" });
}

async function read(
  service: TestService,
  id: string,
  headers: Record<string, string> = {},
): Promise<Delivery> {
  const response = await service.request(`${PATH}/${id}`, { headers });
  assert.equal(response.status, 200, await response.clone().text());
  return (await response.json()) as Delivery;
}

scenario(
  "listDeliveries",
  200,
  { title: "filters by route, status, event and time combine", ...withReceiver({ keys, routes }) },
  async (service) => {
    const push = await send(service, "hook", "push");
    const release = await send(service, "hook", "release");
    const ping = await send(service, "hook", "ping");
    const foreign = await send(service, "theirs", "push");
    const found = async (query: string, headers = {}) =>
      (await list<Delivery>(service, `${PATH}?${query}`, headers)).map(({ id }) => id);
    assert.deepEqual(await found("limit=1"), [ping.id, release.id, push.id], "newest first, of the owner");
    assert.deepEqual(await found("", other), [foreign.id]);
    assert.deepEqual(await found("status=ignored"), [ping.id]);
    assert.deepEqual(await found("status=completed,ignored&event=push,ping"), [ping.id, push.id]);
    assert.deepEqual(await found("route=hook,other&event=release"), [release.id]);
    assert.deepEqual(await found(`delivery_id=${push.delivery_id}`), [push.id]);
    const { store } = service.service;
    for (const [seconds, { id }] of [push, release, ping].entries())
      await store.write((tx) => tx.update("deliveries", { id }, { created_at: (1_000 + seconds) * 1_000 }));
    assert.deepEqual(await found("route=hook&from=1001&to=1002"), [release.id]);
    const all = "route=hook,theirs&status=completed,ignored&event=push,ping";
    assert.deepEqual(await found(`${all}&from=1000&to=1002`), [push.id]);
    assert.deepEqual(await found(`${all}&from=1001&to=1003`), [ping.id]);
    assert.deepEqual(await found(`event=push&from=${foreign.created_at + 60}`), []);
    const [shown] = await list<Delivery>(service, `${PATH}?event=push`);
    assert.deepEqual(
      [shown?.object, shown?.stages, shown?.headers, shown?.payload],
      ["agent.delivery", null, null, null],
    );
  },
);

scenario(
  "listDeliveries",
  400,
  { title: "a cursor of another list, and unknown values" },
  async (service) => {
    for (const [query, code, param] of [
      ["after=route:x", "invalid_cursor", "after"],
      ["status=done", "unsupported_parameter", "status"],
      ["from=yesterday", "invalid_request", "from"],
      ["limit=101", "invalid_request", "limit"],
    ] as const) {
      assert.equal((await assertError(await service.request(`${PATH}?${query}`), 400, code)).param, param);
    }
  },
);

scenario(
  "getDelivery",
  200,
  {
    title: "a delivery shows its stages and run, and signature headers are never readable",
    ...withReceiver({ keys, routes }),
  },
  async (service) => {
    const { id } = await send(service, "hook", "push", { ref: "main", note: "a payload" });
    const response = await service.request(`${PATH}/${id}`);
    const text = await response.text();
    const shown = JSON.parse(text) as Delivery;
    assert.deepEqual(
      [shown.owner, shown.route, shown.status, shown.replay_of],
      ["a", "hook", "completed", null],
    );
    assert.deepEqual(
      shown.stages?.map(({ stage }) => stage),
      ["signature", "rate", "parse", "dedupe", "events", "filters", "render", "admit"],
    );
    assert.equal(shown.headers?.["x-hub-signature-256"], "[redacted]");
    assert.doesNotMatch(text, /sha256=|a payload/);
    assert.ok(shown.run_id);
    const whole = await service.request(`${PATH}/${id}?include=payload,rendered`);
    const everything = await whole.text();
    const listed = await (await service.request(PATH)).text();
    for (const each of [everything, listed, service.logLines.join("\n")])
      assert.doesNotMatch(each, /sha256=/);
    const { payload, rendered } = JSON.parse(everything) as Delivery;
    assert.deepEqual(JSON.parse(payload ?? ""), { ref: "main", note: "a payload" });
    assert.match(rendered ?? "", /Look at/);
  },
);

scenario(
  "getDelivery",
  403,
  {
    title: "a key with scope read lists deliveries of its owner and gets 403 for include=payload",
    ...withReceiver({ keys, routes }),
  },
  async (service) => {
    const { id } = await send(service, "hook", "push");
    await send(service, "theirs", "push");
    assert.deepEqual(
      (await list<Delivery>(service, PATH, reader)).map((each) => each.id),
      [id],
    );
    const refused = await service.request(`${PATH}/${id}?include=payload`, { headers: reader });
    assert.equal((await assertError(refused, 403, "insufficient_scope")).param, "include");
  },
);

scenario(
  "replayDelivery",
  403,
  {
    title: "a key with scope read cannot replay a delivery: 403 insufficient_scope",
    ...withReceiver({ keys, routes }),
  },
  async (service) => {
    const { id } = await send(service, "hook", "push");
    await assertError(await post(service, `${PATH}/${id}/replay`, {}, reader), 403, "insufficient_scope");
  },
);

scenario(
  "replayDelivery",
  403,
  {
    title: "a dry run by a key without admin reads no file of the server",
    ...withReceiver({ keys, routes }),
  },
  async (service) => {
    const { id } = await send(service, "hook", "push");
    const filters = [{ field: "payload.word", in_file: "/etc/shadow" }];
    const dry = (fields: object) =>
      post(service, `${PATH}/${id}/replay?dry_run=true`, { route: fields }, hooks);
    assert.equal((await assertError(await dry({ filters }), 403, "insufficient_scope")).param, "filters");
    assert.equal((await dry({ events: ["push"] })).status, 200);
  },
);

scenario("getDelivery", 400, { title: "an unknown part" }, async (service) => {
  await assertError(await service.request(`${PATH}/dlv_1?include=secret`), 400, "unsupported_parameter");
});

for (const id of ["dlv_none", "x"]) {
  scenario("getDelivery", 404, { title: `there is no ${id}` }, async (service) => {
    await assertError(await service.request(`${PATH}/${id}`), 404, "delivery_not_found");
  });
}

scenario(
  "replayDelivery",
  404,
  { title: "an unknown delivery and another owner's look the same", ...withReceiver({ keys, routes }) },
  async (service) => {
    const { id, delivery_id: sent } = await send(service, "hook", "push");
    for (const each of [id, sent, "dlv_none"]) {
      await assertError(await post(service, `${PATH}/${each}/replay`, {}, other), 404, "delivery_not_found");
      await assertError(
        await service.request(`${PATH}/${each}`, { headers: other }),
        404,
        "delivery_not_found",
      );
    }
  },
);

scenario(
  "replayDelivery",
  202,
  {
    title: "a replay is a new delivery with replay_of, its own run and unchanged original",
    ...withReceiver({ keys, routes }),
  },
  async (service) => {
    const original = await send(service, "hook", "push", { ref: "main" });
    const headers = { "idempotency-key": "again" };
    const response = await post(service, `${PATH}/${original.id}/replay`, {}, headers);
    assert.equal(response.status, 202, await response.clone().text());
    const made = (await response.json()) as Delivery;
    assert.equal(response.headers.get("location"), `${PATH}/${made.id}`);
    assert.deepEqual([made.replay_of, made.event, made.owner], [original.id, "push", "a"]);
    assert.deepEqual(made.stages?.[0], { stage: "signature", result: "pass", detail: "replayed by a" });
    assert.ok(made.run_id && made.run_id !== original.run_id);
    const receiver = new WebhookService(service);
    const rows = await receiver.recorded((all) => all.every((row) => row.ended_at !== null));
    assert.deepEqual(
      rows.map(({ payload, rendered }) => [payload, rendered]),
      [rows[0], rows[0]].map((row) => [row?.payload, row?.rendered]),
    );
    assert.deepEqual(await read(service, original.id), original);
    const repeated = await post(service, `${PATH}/${original.id}/replay`, {}, headers);
    assert.equal(repeated.headers.get("idempotency-replayed"), "true");
    assert.equal(((await repeated.json()) as Delivery).id, made.id);
    assert.deepEqual(
      (await list<Delivery>(service, `${PATH}?replay_of=${original.id}`)).map(({ id }) => id),
      [made.id],
    );
  },
);

test("a replay that a stage stops is recorded, with its stop, before the answer", async () => {
  await using service = await startReceiver();
  const ignored = await send(service, "hook", "ping");
  const response = await post(service, `${PATH}/${ignored.id}/replay`, {});
  const made = (await response.json()) as Delivery;
  assert.deepEqual([response.status, made.status, made.replay_of], [202, "ignored", ignored.id]);
  assert.equal(made.stages?.at(-1)?.stage, "events");
});

scenario(
  "replayDelivery",
  200,
  { title: "a replay with dry_run reports each stage and starts no run", ...withReceiver({ keys, routes }) },
  async (service) => {
    const { id } = await send(service, "hook", "push", { ref: "main" });
    const headers = { "idempotency-key": "tried" };
    const dry = async (body: object) => {
      const response = await post(service, `${PATH}/${id}/replay?dry_run=true`, body, headers);
      assert.equal(response.status, 200, await response.clone().text());
      assert.equal(response.headers.get("x-agent-dry-run"), "true");
      return (await response.json()) as WebhookResult;
    };
    const result = await dry({});
    assert.deepEqual([result.http_status, result.event, result.targets], [202, "push", ["log"]]);
    assert.deepEqual(
      result.stages.map(({ stage, result: outcome }) => [stage, outcome]),
      ["signature", "parse", "dedupe", "events", "filters", "render"].map((stage) => [stage, "pass"]),
    );
    const upTo = await dry({ up_to: "parse" });
    assert.deepEqual([upTo.stages.length, upTo.http_status, upTo.body], [2, null, null]);
    assert.equal((await list<Delivery>(service, PATH)).length, 1);
    assert.equal((await service.service.store.read.selectFrom("runs").select("id").execute()).length, 1);
    assert.equal((await post(service, `${PATH}/${id}/replay`, {}, headers)).status, 202, "the key is free");
  },
);

scenario(
  "replayDelivery",
  400,
  { title: "fields of a dry run without it", ...withReceiver({ keys, routes }) },
  async (service) => {
    const { id } = await send(service, "hook", "push");
    const error = await assertError(
      await post(service, `${PATH}/${id}/replay`, { up_to: "parse" }),
      400,
      "invalid_request",
    );
    assert.equal(error.param, "up_to");
    const broken = { route: { scheme: "none" } };
    await assertError(
      await post(service, `${PATH}/${id}/replay?dry_run=true`, broken),
      400,
      "invalid_config",
    );
  },
);

scenario(
  "replayDelivery",
  409,
  {
    title: "a delivery without its body is 409 delivery_not_replayable, and so is one without its route",
    ...withReceiver({ keys, routes }),
  },
  async (service) => {
    const { id } = await send(service, "hook", "push");
    await service.service.store.write((tx) => tx.update("delivery_bodies", { id }, { payload: null }));
    const reasonOf = async (of: string) => {
      const error = await assertError(
        await post(service, `${PATH}/${of}/replay`, {}),
        409,
        "delivery_not_replayable",
      );
      return (error as never as { details: { reason: string } }).details.reason;
    };
    assert.equal(await reasonOf(id), "body_not_kept");
    const second = await send(service, "hook", "push");
    await service.service.store.write((tx) =>
      tx.update("deliveries", { id: second.id }, { route: "theirs" }),
    );
    assert.equal(await reasonOf(second.id), "route_missing", "a route of another owner does not run it");
  },
);

test("with the receiver off a replay is 409 receiver_disabled", async () => {
  const service = await startReceiver();
  const { id } = await send(service, "hook", "push");
  const webhook = { enabled: false, secret: SECRET, routes };
  await using later = await service.restart({ keys, config: { platforms: { webhook } } });
  await assertError(await post(later, `${PATH}/${id}/replay`, {}), 409, "receiver_disabled");
  assert.equal((await list<Delivery>(later, PATH)).length, 1, "deliveries stay readable");
  assert.equal((await post(later, `${PATH}/${id}/replay?dry_run=true`, {})).status, 200);
});

test("each delivery is in the feed of its owner, from its start to its end, without its payload", async () => {
  await using service = await startReceiver();
  const { id, run_id: run } = await send(service, "hook", "push", { ref: "secret words" });
  const replayed = (await (await post(service, `${PATH}/${id}/replay`, {})).json()) as Delivery;
  await new WebhookService(service).recorded((all) => all.every((row) => row.ended_at !== null));
  const feed = (headers = {}) =>
    list<FeedEvent>(service, "/v1/events?types=delivery.*", { accept: "application/json", ...headers });
  let events = await feed();
  while (events.filter(({ data }) => data["status"] === "completed").length < 2) events = await feed();
  const own = events.filter(({ data }) => data.id === id);
  assert.deepEqual(
    [own.at(0)?.type, own.at(-1)?.type, own.at(-1)?.data],
    [
      "delivery.created",
      "delivery.updated",
      { object: "agent.delivery", id, route: "hook", event: "push", status: "completed", run_id: run },
    ],
  );
  const first = events.find(({ data }) => data.id === replayed.id);
  assert.deepEqual([first?.type, first?.actor], ["delivery.created", "a"]);
  assert.doesNotMatch(JSON.stringify(events), /secret words/);
  assert.deepEqual(await feed(other), []);
});

test("a run names the delivery that started it, and both find each other through the message", async () => {
  await using service = await startReceiver();
  const { id, run_id: runId } = await send(service, "hook", "push");
  const run = (await (await service.request(`/v1/runs/${runId}`)).json()) as Run;
  assert.deepEqual([run.delivery_id, run.occurrence_id, run.source, run.owner], [id, null, "webhook", "a"]);
  const [listed] = await list<Run>(service, "/v1/runs?source=webhook,cron");
  assert.deepEqual([listed?.id, listed?.delivery_id], [runId, id]);
  assert.deepEqual(await list<Run>(service, "/v1/runs?source=cron"), []);
});

function startReceiver(): Promise<TestService> {
  return startTestService(withReceiver({ keys, routes }));
}
