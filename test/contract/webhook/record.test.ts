/** What the receiver writes down, and what it tells the log. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { DeliveryRow } from "../../../src/store/schema/tables.ts";
import { Deliveries } from "../../../src/webhook/deliveries/deliveries.ts";
import { replayHeaders } from "../../../src/webhook/deliveries/replay.ts";
import type { WebhookRoute } from "../../../src/webhook/routes/route.ts";
import type { WebhookRoutes } from "../../../src/webhook/routes/routes.ts";
import { SECRET, serveChangedDeps, startWebhookService, webhookScenario } from "../../harness/webhook.ts";

const stagesOf = ({ stages }: DeliveryRow): readonly string[] =>
  (JSON.parse(stages) as { stage: string; result: string }[]).map(
    ({ stage, result }) => `${stage} ${result}`,
  );

const event = (name: string) => ({ headers: { "x-github-event": name } });

test("an event outside the route's list answers 200 `ignored`, and an ignored ping is not logged at info", async () => {
  await using service = await startWebhookService({ routes: { hook: { events: ["push"] } } });
  for (const name of ["issues", "ping"]) {
    const { status, body } = await service.post("hook", {}, event(name));
    assert.equal(status, 200);
    assert.deepEqual(body, { status: "ignored", event: name });
  }
  // The log of the tests begins at info.
  const lines = service.logged("a webhook was ignored");
  assert.deepEqual(
    lines.map(({ level, route, event: type, reason }) => [level, route, type, reason]),
    [["info", "hook", "issues", "issues is not one of push"]],
  );
  assert.match(String(lines[0]?.["request"]), /^req_/);
});

test("an empty event list accepts every event, and event names match exactly as sent", async () => {
  await using service = await startWebhookService({
    routes: { all: { events: [] }, some: { events: ["Merge Request Hook"] } },
  });
  const asSent = (name: string) => ({ headers: { "x-gitlab-event": name } });
  assert.equal((await service.post("all", {}, asSent("Anything Hook"))).status, 202);
  assert.equal((await service.post("some", {}, asSent("Merge Request Hook"))).status, 202);
  for (const other of ["merge request hook", "merge_request", "Merge Request Hook x", "Merge Request"]) {
    assert.equal((await service.post("some", {}, asSent(other))).body.status, "ignored", other);
  }
});

test("the event comes from the header, else from the payload, else it is `unknown`", async () => {
  await using service = await startWebhookService();
  const eventOf = async (body: unknown, headers: Record<string, string> = {}): Promise<string> =>
    (await service.post("hook", body, { headers })).body.event;
  const both = { event_type: "typed", type: "short" };
  assert.equal(await eventOf(both, { "x-github-event": "header", "x-gitlab-event": "second" }), "header");
  assert.equal(await eventOf(both, { "x-gitlab-event": "second" }), "second");
  assert.equal(await eventOf(both, { "x-hosta-event": "as written" }), "as written");
  assert.equal(await eventOf(both, { "x-github-event": "" }), "typed");
  assert.equal(await eventOf(both), "typed");
  assert.equal(await eventOf({ type: "short" }), "short");
  assert.equal(await eventOf({ event_type: 7, type: "" }), "unknown");
  assert.equal(await eventOf([1]), "unknown");
  assert.equal((await eventOf({ event_type: "x".repeat(100_000) })).length, 200);
});

webhookScenario(
  ["receiveWebhook 403", "receiveWebhook 403 x-request-id"],
  "a disabled route answers 403 before it checks the signature",
  async (service) => {
    const { status, body } = await service.post("off");
    assert.deepEqual([status, body.error, body.code], [403, "Route disabled", "route_disabled"]);
    assert.equal((await service.post("off", {}, { secret: "wrong" })).status, 403, "before the signature");
  },
  { routes: { off: { enabled: false } } },
);

test("a route that loses its secret at runtime answers 403 `no_secret`", async () => {
  await using service = await startWebhookService();
  await using changed = await serveChangedDeps(service, ({ routes }) => ({
    routes: withRoutes(routes, { secrets: [] }),
  }));
  for (const secret of [SECRET, "", null]) {
    const { status, body } = await changed.post("hook", {}, { secret });
    assert.deepEqual([status, body.code], [403, "no_secret"]);
    assert.equal(body.error, "Webhook route is missing a webhook secret");
  }
  const tooLong = await changed.post("hook", "x".repeat(1_048_577));
  assert.equal(tooLong.status, 413, "the size comes first");
});

test("each request with a valid signature has a row with the results of its stages", async () => {
  await using service = await startWebhookService({
    routes: { hook: { events: ["push", "issues"], filters: [{ field: "a", equals: 1 }], prompt: "do {a}" } },
  });
  const push = { headers: { "x-github-event": "push", "x-github-delivery": "one" } };
  await service.post("hook", { a: 1 }, push);
  await service.post("hook", { a: 1 }, push);
  await service.post("hook", { a: 2 }, event("issues"));
  await service.post("hook", { a: 1 }, event("star"));
  await service.post("hook", "{bad", event("push"));
  await service.post("nobody", { a: 1 });
  const rows = await service.recorded(
    (all) => all.length === 5 && all.every(({ ended_at }) => ended_at !== null),
  );
  const before = ["signature pass", "rate pass"];
  const [taken, ...stopped] = rows;
  assert.deepEqual(
    [taken?.status, taken?.delivery_id, taken?.event, taken?.payload, taken?.rendered],
    ["completed", "one", "push", '{"a":1}', "do 1"],
  );
  assert.deepEqual(taken && stagesOf(taken), [
    ...before,
    "parse pass",
    "dedupe pass",
    "events pass",
    "filters pass",
    "render pass",
    "admit pass",
  ]);
  assert.ok(taken?.run_id);
  const found = new Map(stopped.map((row) => [row.status === "ignored" ? row.event : row.status, row]));
  assert.deepEqual(found.get("duplicate") && stagesOf(found.get("duplicate")!), [
    ...before,
    "parse pass",
    "dedupe stop",
  ]);
  assert.deepEqual(stagesOf(found.get("issues")!).at(-1), "filters stop");
  assert.deepEqual(stagesOf(found.get("star")!).at(-1), "events stop");
  assert.deepEqual(stagesOf(found.get("refused")!), [...before, "parse stop"]);
  assert.deepEqual(
    [found.get("refused")?.payload, found.get("refused")?.reason],
    ["{bad", "the body is not JSON"],
  );
});

test("the record and the log hold no secret", async () => {
  await using service = await startWebhookService();
  const secrets = {
    authorization: "Bearer abcdefghijklmnop",
    cookie: "sid=abcdef",
    "x-gitlab-token": "wrong-token-1",
    "x-api-key": "k-12345678",
  };
  await service.post(
    "hook",
    {},
    { headers: { "x-custom": "shown", ...secrets, "x-gitlab-event": "Push Hook" } },
  );
  await service.post("hook", {}, { secret: null, headers: { "x-gitlab-token": "wrong-token-2" } });
  const [row] = await service.deliveries();
  const headers = JSON.parse(row?.headers ?? "{}") as Record<string, string>;
  for (const name of [...Object.keys(secrets), "x-hub-signature-256"])
    assert.equal(headers[name], "[redacted]", name);
  assert.deepEqual([headers["x-custom"], headers["x-gitlab-event"]], ["shown", "Push Hook"]);
  const [refused] = service.logged("a webhook was refused");
  assert.deepEqual(
    [refused?.["code"], refused?.["path"], refused?.["why"]],
    ["invalid_signature", "/webhooks/hook", "x-gitlab-token: mismatch"],
  );
  assert.match(String(refused?.["request"]), /^req_/);
  const log = service.test.logLines.join("");
  for (const secret of [SECRET, "wrong-token", "abcdefghijklmnop", "k-12345678"])
    assert.ok(!log.includes(secret), secret);
});

test("strangers cannot fill the log", async () => {
  await using service = await startWebhookService();
  await Promise.all(Array.from({ length: 200 }, (_, at) => service.post(`nobody-${at}`)));
  assert.equal(service.logged("a webhook was refused").length, 60);
});

test("the record can be listed page by page, shown, and repeated as it was", async () => {
  await using service = await startWebhookService({ routes: { hook: { events: ["push"] }, other: {} } });
  for (const id of ["a", "b", "c"]) {
    await service.post("hook", `{"n": 1.0, "id":"${id}"}`, {
      headers: { "x-github-event": "push", "x-github-delivery": id },
    });
  }
  await service.post("hook", {}, event("ping"));
  await service.post("other", {}, { headers: { "x-github-delivery": "a" } });
  await service.recorded((rows) => rows.length === 5);
  const record = new Deliveries(service.test.service.store);
  const first = await record.list({ routes: ["hook"] }, { limit: 3 });
  assert.equal(first.deliveries.length, 3);
  const rest = await record.list({ routes: ["hook"] }, { limit: 3, cursor: first.nextCursor });
  assert.equal(rest.nextCursor, undefined);
  const all = [...first.deliveries, ...rest.deliveries];
  assert.deepEqual(all.map(({ deliveryId }) => deliveryId).slice(-3), ["c", "b", "a"]);
  assert.ok(
    all.every(({ id }, at) => at === 0 || id < (all[at - 1]?.id ?? "")),
    "newest first",
  );
  assert.deepEqual(
    (await record.list({ statuses: ["ignored"] }, { limit: 9 })).deliveries.map(({ event: type }) => type),
    ["ping"],
  );
  assert.equal((await record.show("a"))?.route, "other", "the newest of that name");
  const shown = await record.show(all.at(-1)?.id ?? "");
  assert.ok(shown);
  assert.equal(shown.payload, '{"n": 1.0, "id":"a"}');
  assert.equal(await record.show("dlv_none"), undefined);
  const again = await service.post("hook", shown.payload, {
    headers: { ...replayHeaders(shown), "x-request-id": "again" },
  });
  assert.deepEqual(again.body, { status: "accepted", route: "hook", event: "push", delivery_id: "again" });
  assert.equal((await record.show("again"))?.replayOf, shown.id);
});

webhookScenario(
  ["receiveWebhook 503", "receiveWebhook 503 x-request-id", "receiveWebhook 503 retry-after"],
  "without its store the receiver answers 503 with Retry-After, and acknowledges nothing",
  async (service) => {
    await service.test.service.store.close();
    const given: readonly Record<string, string>[] = [{ "x-github-delivery": "one" }, {}];
    for (const headers of given) {
      const { status, body, headers: back } = await service.post("hook", {}, { headers });
      assert.deepEqual([status, body.code, back.get("retry-after")], [503, "store_unavailable", "5"]);
    }
    assert.equal((await service.post("hook", {}, { secret: "wrong" })).status, 401);
  },
);

webhookScenario(
  ["receiveWebhook 500", "receiveWebhook 500 x-request-id"],
  "what breaks inside is answered 500 without a word of it, and logged",
  async (service) => {
    await using changed = await serveChangedDeps(service, ({ ports }) => ({
      ports: { ...ports, findDuplicate: () => Promise.reject(new TypeError("inner workings")) },
    }));
    const { status, body } = await changed.post("hook");
    assert.deepEqual([status, body.error, body.code], [500, "Internal error", "internal"]);
    const [line] = service.logged("cannot receive a webhook");
    assert.equal(line?.["request"], body.request_id);
    assert.match(JSON.stringify(line), /inner workings/);
  },
);

webhookScenario(
  ["receiveWebhook 502", "receiveWebhook 502 x-request-id"],
  "what a target does not take is answered 502 without a word of why, and may be sent again",
  async (service) => {
    let isDown = true;
    await using changed = await serveChangedDeps(service, ({ routes }) => ({
      routes: withRoutes(routes, { deliverOnly: true, deliver: "webhook" }),
      send: async () => (isDown ? { status: "permanent", error: "inner workings" } : { status: "delivered" }),
    }));
    const named = { headers: { "x-github-delivery": "one" } };
    const { status, body } = await changed.post("hook", {}, named);
    assert.equal(status, 502);
    const { request_id: _, ...rest } = body;
    assert.deepEqual(rest, {
      status: "error",
      error: "Delivery failed",
      code: "delivery_failed",
      delivery_id: "one",
    });
    isDown = false;
    const again = await changed.post("hook", {}, named);
    assert.deepEqual(again.body, {
      status: "delivered",
      route: "hook",
      target: "webhook",
      delivery_id: "one",
    });
    assert.equal((await changed.post("hook", {}, named)).body.status, "duplicate");
  },
);

/** The same routes, each with something changed. */
function withRoutes(routes: WebhookRoutes, set: Partial<WebhookRoute>): WebhookRoutes {
  const find = async (name: string): Promise<WebhookRoute | undefined> => {
    const route = await routes.find(name);
    return route && { ...route, ...set };
  };
  return Object.assign(Object.create(routes) as WebhookRoutes, { find });
}
