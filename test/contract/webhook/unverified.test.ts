/** Requests that are refused before their sender is known: the owner of the route sees them, and strangers fill nothing. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { DeliveryRow } from "../../../src/store/schema/tables.ts";
import type { Store } from "../../../src/store/store.ts";
import { Deliveries } from "../../../src/webhook/deliveries/deliveries.ts";
import { unevaluated, type VerifiedRequest } from "../../../src/webhook/receive/evaluate.ts";
import { openTestStore } from "../../harness/store.ts";
import { startWebhookService, type RecordedDelivery } from "../../harness/webhook.ts";

const stopOf = ({ stages }: DeliveryRow): { readonly stage: string; readonly detail: string } => {
  const all = JSON.parse(stages) as { stage: string; result: string; detail: string }[];
  assert.deepEqual(
    all.map(({ result }) => result),
    ["stop"],
    "no other stage ran",
  );
  return all[0]!;
};

const newest = (rows: readonly RecordedDelivery[]): RecordedDelivery => rows.at(-1)!;

test("a request with a wrong signature is recorded with what is wrong and what to do, without its body", async () => {
  await using service = await startWebhookService();
  const headers = { "x-github-event": "push", "x-github-delivery": "one" };
  const { status } = await service.post("hook", { text: "of a stranger" }, { secret: "wrong", headers });
  assert.equal(status, 401);
  const row = newest(await service.recorded((rows) => rows.length === 1));
  assert.deepEqual(
    [row.status, row.event, row.delivery_id, row.payload, row.rendered, row.run_id],
    ["refused", "push", "one", null, null, null],
  );
  const { stage, detail } = stopOf(row);
  assert.equal(stage, "signature");
  assert.equal(
    detail,
    "The signature (hub) does not match. The secrets of the sender and of the route differ, or the body was changed on its way. Set the same secret on both sides.",
  );
  assert.equal(row.reason, detail);
  assert.ok(!row.headers.includes("of a stranger"));
  assert.equal(JSON.parse(row.headers)["x-hub-signature-256"], "[redacted]");
});

test("every other refusal before the sender is known says what to do, too", async () => {
  await using service = await startWebhookService({
    routes: { hook: {}, off: { enabled: false }, tokens: { auth: "bearer" } },
  });
  const old = String(Math.floor(Date.now() / 1000) - 3_600);
  const stale = { "x-webhook-timestamp": old, "x-webhook-signature-v2": "0".repeat(64) };
  const cases: readonly (readonly [() => Promise<{ status: number }>, number, RegExp, string])[] = [
    [
      () => service.post("hook", {}, { secret: null }),
      401,
      /no signature that the route accepts/,
      "signature",
    ],
    [
      () => service.post("hook", {}, { secret: null, headers: { "x-hub-signature-256": "sha256=x" } }),
      401,
      /not written as its scheme requires/,
      "signature",
    ],
    [
      () => service.post("hook", {}, { secret: null, headers: stale }),
      401,
      /\(v2\) does not match/,
      "signature",
    ],
    [
      () => service.post("tokens", {}, { secret: null, headers: { authorization: "Bearer wrong" } }),
      401,
      /secret in the request \(bearer\) is not the secret of the route/,
      "signature",
    ],
    [() => service.post("off"), 403, /The route is disabled. Enable it/, "receive"],
    [() => service.post("hook", "x".repeat(1_048_577)), 413, /limits.max_body_bytes/, "receive"],
  ];
  for (const [at, [post, status, says, stage]] of cases.entries()) {
    assert.equal((await post()).status, status, String(says));
    const row = newest(await service.recorded((rows) => rows.length === at + 1));
    assert.equal(row.status, "refused");
    const stop = stopOf(row);
    assert.equal(stop.stage, stage);
    assert.match(stop.detail, says);
  }
  await service.post("nobody", {}, { secret: "wrong" });
  await service.post("hook");
  const rows = await service.recorded((all) => all.length === cases.length + 1);
  assert.ok(!rows.some(({ route }) => route === "nobody"), "an unknown route is nobody's");
});

test("a stranger's request claims to replay nothing, and its headers are cut", async () => {
  await using service = await startWebhookService();
  await service.post("hook", {}, { headers: { "x-github-delivery": "one" } });
  const [genuine] = await service.recorded((rows) => rows[0]?.ended_at != null);
  const many = Object.fromEntries(Array.from({ length: 35 }, (_, at) => [`a-${at}`, "x".repeat(400)]));
  const claims = { "x-agent-replay-of": genuine!.id, "x-github-delivery": "one" };
  for (const headers of [claims, many]) await service.post("hook", {}, { secret: "wrong", headers });
  const rows = await service.recorded((all) => all.length === 3);
  for (const row of rows.slice(1)) {
    assert.equal(row.replay_of, null);
    assert.ok(row.headers.length < 8_000, `${row.headers.length}`);
  }
  const record = new Deliveries(service.test.service.store);
  assert.equal((await record.show("one"))?.id, genuine!.id, "a genuine delivery of that id comes first");
  const again = await service.post("hook", {}, { headers: { "x-github-delivery": "two" } });
  assert.equal(again.status, 202, "refused requests use up no delivery id");
});

test("of a flood of strangers the first ten in ten minutes are recorded, and the others are in the log", async () => {
  await using service = await startWebhookService({ routes: { hook: {}, other: {} } });
  for (let n = 0; n < 40; n++) await service.post("hook", {}, { secret: `wrong ${n}` });
  await service.post("other", {}, { secret: "wrong" });
  const rows = await service.recorded((all) => all.some(({ route }) => route === "other"));
  assert.equal(rows.filter(({ route }) => route === "hook").length, 10);
  assert.equal(service.logged("a webhook was refused").length, 41);
});

test("of each route the newest fifty are kept, and genuine deliveries beside them", async (t) => {
  const { store } = await openTestStore(t);
  const record = new Deliveries(store);
  await record.recordStopped(refusedAt("hook"));
  await until(store, 1);
  for (let n = 0; n < 60; n++) await record.recordUnverified(refusedAt("hook"), n * 600_000);
  await record.recordUnverified(refusedAt("other"), 60 * 600_000);
  const rows = await store.read.selectFrom("deliveries").selectAll().orderBy("id").execute();
  const strangers = rows.filter(({ unverified }) => unverified !== null);
  assert.equal(strangers.filter(({ route }) => route === "hook").length, 50);
  assert.equal(strangers.filter(({ route }) => route === "other").length, 1);
  assert.equal(rows.length - strangers.length, 1);
});

async function until(store: Store, count: number): Promise<void> {
  const patience = AbortSignal.timeout(60_000);
  while ((await store.read.selectFrom("deliveries").select("id").execute()).length < count) {
    patience.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

function refusedAt(route: string) {
  const request = {
    route: { name: route, owner: "default" },
    headers: new Headers(),
    body: new Uint8Array(),
    requestId: "req_1",
  } as unknown as VerifiedRequest;
  const answer = { status: 401, body: { error: "Invalid signature", code: "invalid_signature" } } as const;
  const stages = [{ stage: "signature", result: "stop", detail: "wrong" }] as const;
  return { request, evaluated: unevaluated(request, answer as never), stages };
}
