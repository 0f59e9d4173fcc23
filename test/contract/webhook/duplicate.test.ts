/** Deliveries that come more than once. */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { Webhook } from "standardwebhooks";
import { FakeClock } from "../../harness/fake-clock.ts";
import type { DeliveryRow } from "../../../src/store/schema/tables.ts";
import {
  bytesOf,
  SECRET,
  sign,
  startWebhookService,
  webhookScenario,
  type WebhookService,
} from "../../harness/webhook.ts";

const HOUR_MS = 3_600_000;
const hourClock = new FakeClock();
const named = (id: string) => ({ headers: { "x-github-delivery": id } });

/** A request signed with its time, as `X-Webhook-Signature-V2`. */
function timed(
  body: string,
  seconds: number,
): { readonly secret: null; readonly headers: Record<string, string> } {
  const mac = createHmac("sha256", SECRET).update(`${seconds}.${body}`).digest("hex");
  return { secret: null, headers: { "x-webhook-timestamp": String(seconds), "x-webhook-signature-v2": mac } };
}

async function runCount(service: WebhookService): Promise<number> {
  return (await service.test.service.store.read.selectFrom("runs").select("id").execute()).length;
}

test("a route with INSECURE_NO_AUTH accepts an unsigned request on loopback", async () => {
  await using service = await startWebhookService({ routes: { hook: { secret: "INSECURE_NO_AUTH" } } });
  assert.equal((await service.post("hook", {}, { secret: null })).status, 202);
});

test("the signature covers the raw bytes: changed whitespace fails, and escaped unicode passes", async () => {
  await using service = await startWebhookService();
  const signature = sign(bytesOf('{"a": 1}'));
  const post = (body: string, value: string) =>
    service.post("hook", body, { secret: null, headers: { "x-hub-signature-256": value } });
  assert.equal((await post('{"a":1}', signature)).status, 401);
  assert.equal((await post('{"a": 1}\n', signature)).status, 401);
  assert.equal((await post('{"a": 1}', signature)).status, 202);
  const escaped = '{"name":"\\u00e9\\ud83d\\ude00"}';
  assert.equal((await post(escaped, sign(bytesOf(escaped)))).status, 202);
});

test("a V2 request repeated within 300 s is a duplicate, even with another unsigned delivery id", async () => {
  const clock = new FakeClock();
  await using service = await startWebhookService({ clock });
  const seconds = clock.now() / 1000;
  const first = await service.post("hook", "{}", timed("{}", seconds));
  assert.equal(first.status, 202);
  clock.tick(299_000);
  const second = await service.post("hook", "{}", timed("{}", seconds));
  assert.equal(second.status, 200);
  assert.deepEqual(second.body, { status: "duplicate", delivery_id: first.body.delivery_id });
  // Another id in a header that is not signed does not make it another request.
  const renamed = timed("{}", seconds);
  const third = await service.post("hook", "{}", {
    ...renamed,
    headers: { ...renamed.headers, ...named("new").headers },
  });
  assert.equal(third.body.status, "duplicate");
  assert.equal(
    (await service.post("hook", "{}", timed("{}", seconds + 1))).status,
    202,
    "a second later it is another",
  );
  clock.tick(2_000);
  assert.equal((await service.post("hook", "{}", timed("{}", seconds))).status, 401, "stale");
  assert.equal(await runCount(service), 2);
});

test("a repeated Standard Webhooks request is a duplicate, even with another unsigned delivery id", async () => {
  await using service = await startWebhookService({
    settings: { secret: `whsec_${btoa("0123456789abcdef01234567")}` },
  });
  const now = new Date();
  const signature = new Webhook(btoa("0123456789abcdef01234567")).sign("msg_1", now, "{}");
  const headers = {
    "webhook-id": "msg_1",
    "webhook-timestamp": String(Math.floor(now.getTime() / 1000)),
    "webhook-signature": signature,
  };
  const first = await service.post("hook", "{}", { secret: null, headers });
  assert.deepEqual([first.status, first.body.delivery_id], [202, "msg_1"]);
  const again = await service.post("hook", "{}", {
    secret: null,
    headers: { ...headers, "x-github-delivery": "other" },
  });
  assert.deepEqual(again.body, { status: "duplicate", delivery_id: "msg_1" });
});

test("the route's script does not run for a duplicate request", async () => {
  await using service = await startWebhookService({ routes: { hook: { script: "count.sh" } } });
  const folder = join(service.test.home, "agentd", "scripts");
  const counted = join(service.test.home, "counted");
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "count.sh"), `echo ran >> '${counted}'\necho '{"a":1}'\n`);
  const request = timed("{}", Math.floor(Date.now() / 1000));
  assert.equal((await service.post("hook", "{}", request)).status, 202);
  assert.equal((await service.post("hook", "{}", request)).body.status, "duplicate");
  assert.equal(await readFile(counted, "utf8"), "ran\n");
});

webhookScenario(
  ["receiveWebhook 200", "receiveWebhook 200 x-request-id"],
  "a delivery id answers 200 `duplicate` for one hour on its route and runs on another route",
  async (service) => {
    assert.equal((await service.post("hook", {}, named("one"))).status, 202);
    const again = await service.post("hook", { other: "body" }, named("one"));
    assert.equal(again.status, 200);
    assert.deepEqual(again.body, { status: "duplicate", delivery_id: "one" });
    assert.equal((await service.post("other", {}, named("one"))).status, 202);
    hourClock.tick(HOUR_MS - 1);
    assert.equal((await service.post("hook", {}, named("one"))).body.status, "duplicate");
    hourClock.tick(1);
    assert.equal((await service.post("hook", {}, named("one"))).status, 202);
    assert.equal((await service.post("hook", {}, named("one"))).body.status, "duplicate");
    assert.equal(await runCount(service), 3);
  },
  { clock: hourClock, routes: { hook: {}, other: {} } },
);

test("the delivery id is the first non-empty of x-github-delivery, svix-id, webhook-id and x-request-id, or generated", async () => {
  await using service = await startWebhookService({ routes: { hook: { secret: "INSECURE_NO_AUTH" } } });
  const all = {
    "x-github-delivery": "host",
    "svix-id": "svix",
    "webhook-id": "standard",
    "x-request-id": "request",
  };
  const left: Record<string, string> = { ...all };
  const taken = async (): Promise<string> => {
    const { status, body } = await service.post("hook", {}, { secret: null, headers: left });
    assert.equal(status, 202);
    return body.delivery_id;
  };
  for (const [name, id] of Object.entries(all)) {
    assert.equal(await taken(), id);
    // One that is empty does not count.
    left[name] = "";
  }
  assert.match(await taken(), /^req_/);
});

test("long delivery ids that differ only at the end are distinct", async () => {
  await using service = await startWebhookService();
  const [one, two] = ["1", "2"].map((end) => named("x".repeat(5000) + end));
  const first = await service.post("hook", {}, one);
  assert.deepEqual([first.status, first.body.delivery_id.length <= 200], [202, true]);
  assert.equal((await service.post("hook", {}, two)).status, 202);
  assert.equal((await service.post("hook", {}, one)).body.status, "duplicate");
});

test("identical requests without a delivery id both run, even in the same millisecond", async () => {
  await using service = await startWebhookService({ clock: new FakeClock() });
  const [one, two] = await Promise.all([service.post("hook"), service.post("hook")]);
  assert.deepEqual([one.status, two.status], [202, 202]);
  assert.notEqual(one.body.delivery_id, two.body.delivery_id);
  assert.equal(await runCount(service), 2);
});

test("duplicates are still recognized after a restart", async () => {
  const first = await startWebhookService();
  const request = timed("{}", Math.floor(Date.now() / 1000));
  assert.equal((await first.post("hook", {}, named("one"))).status, 202);
  assert.equal((await first.post("hook", "{}", request)).status, 202);
  await using second = await first.restart();
  assert.equal((await second.post("hook", {}, named("one"))).body.status, "duplicate");
  assert.equal((await second.post("hook", "{}", request)).body.status, "duplicate");
  assert.equal((await second.post("hook", {}, named("two"))).status, 202);
});

test("one of 100 concurrent posts of a delivery is accepted and starts the only run", async () => {
  await using service = await startWebhookService();
  const answers = await Promise.all(
    Array.from({ length: 100 }, () => service.post("hook", {}, named("one"))),
  );
  const statuses = answers.map(({ body }) => body.status as string);
  assert.equal(statuses.filter((status) => status === "accepted").length, 1);
  assert.equal(statuses.filter((status) => status === "duplicate").length, 99);
  assert.equal(await runCount(service), 1);
  const rows = await service.recorded((all) => all.length === 100);
  assert.equal(rows.filter(({ status }) => status === "duplicate").length, 99);
});

test("a repeated delivery is a duplicate while its run is running or completed, and is accepted after a failed run", async () => {
  const begun = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  let count = 0;
  await using service = await startWebhookService({
    script: async () => {
      if (++count > 1) return { text: "done" };
      begun.resolve();
      await held.promise;
      return { error: { code: "provider_error", message: "The model is not there." } };
    },
  });
  const ended = (rows: readonly DeliveryRow[], status: string) => rows.some((row) => row.status === status);
  const request = () => timed('{"a":1}', Math.floor(Date.now() / 1000));
  const [signed, later] = [request(), named("again")];
  const post = () =>
    service.post("hook", '{"a":1}', { ...signed, headers: { ...signed.headers, ...later.headers } });
  assert.equal((await post()).body.status, "accepted");
  await begun.promise;
  assert.equal((await post()).body.status, "duplicate");
  held.resolve();
  await service.recorded((rows) => ended(rows, "failed"));
  assert.equal((await post()).body.status, "accepted");
  await service.recorded((rows) => ended(rows, "completed"));
  assert.equal((await post()).body.status, "duplicate");
  assert.equal(count, 2);
});

test("a delivery whose run was stopped can be sent again", async () => {
  const begun = Promise.withResolvers<void>();
  let count = 0;
  await using service = await startWebhookService({
    script: async ({ signal }) => {
      if (++count > 1) return { text: "done" };
      begun.resolve();
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return { text: "cut" };
    },
  });
  await service.post("hook", {}, named("stopped"));
  await begun.promise;
  const [row] = await service.deliveries();
  await service.test.service.runs.stop(row?.run_id ?? "", "not needed");
  await service.recorded(([first]) => first?.status === "interrupted");
  assert.equal((await service.post("hook", {}, named("stopped"))).body.status, "accepted");
});

test("a failure releases only its own id, not the same id of a later delivery", async () => {
  const releases: (() => void)[] = [];
  await using service = await startWebhookService({
    script: async () => {
      await new Promise<void>((resolve) => releases.push(resolve));
      return { error: { code: "provider_error", message: "The model is not there." } };
    },
  });
  const { store } = service.test.service;
  await service.post("hook", {}, named("long"));
  await store.write((tx) => tx.update("ledger", { scope: "webhook:hook", key: "long" }, { expires_at: 1 }));
  assert.equal((await service.post("hook", {}, named("long"))).body.status, "accepted");
  await service.recorded(() => releases.length === 2);
  releases[0]?.();
  await service.recorded((rows) => rows.some(({ status }) => status === "failed"));
  assert.equal((await service.post("hook", {}, named("long"))).body.status, "duplicate");
  releases[1]?.();
  await service.recorded((rows) => rows.filter(({ status }) => status === "failed").length === 2);
  assert.equal((await service.post("hook", {}, named("long"))).body.status, "accepted");
  releases[2]?.();
});

test("at most one of many redeliveries during a failing run is accepted", async () => {
  let count = 0;
  await using service = await startWebhookService({
    script: () =>
      ++count > 1
        ? { text: "done" }
        : { error: { code: "provider_error", message: "The model is not there." } },
  });
  assert.equal((await service.post("hook", {}, named("raced"))).status, 202);
  let accepted = 0;
  for (let round = 0; accepted === 0; round++) {
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => service.post("hook", {}, named("raced"))),
    );
    accepted += answers.filter(({ body }) => body.status === "accepted").length;
    assert.ok(round < 100, "none was accepted");
  }
  assert.equal(accepted, 1);
  await service.recorded((rows) => rows.some(({ status }) => status === "completed"));
  assert.equal(count, 2);
});
