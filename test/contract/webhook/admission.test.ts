/** What a 202 guarantees: the delivery is recorded, runs once in its own session, and waits for a concurrency limit. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { checkSessionName } from "../../../src/agent/session/session.ts";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import type { DeliveryRow, RunRow, SessionRow } from "../../../src/store/schema/tables.ts";
import { serveChangedDeps, startWebhookService, type WebhookService } from "../../harness/webhook.ts";

const named = (id: string) => ({ headers: { "x-github-delivery": id } });
const statuses = (rows: readonly DeliveryRow[]) => rows.map(({ status }) => status);
const isEnded = ({ ended_at: at }: DeliveryRow) => at !== null;

const runs = (service: WebhookService): Promise<readonly RunRow[]> =>
  service.test.service.store.read.selectFrom("runs").selectAll().orderBy("id").execute();
const sessions = (service: WebhookService): Promise<readonly SessionRow[]> =>
  service.test.service.store.read.selectFrom("sessions").selectAll().orderBy("id").execute();

/** Answers that come when they are let go, one after the other; `atWork` counts those that have begun. */
class Held {
  readonly #open: (() => void)[] = [];
  readonly #begun: { readonly count: number; readonly resolve: () => void }[] = [];
  begun = 0;

  readonly script: Script = async ({ user, signal }) => {
    this.begun++;
    for (const { count, resolve } of this.#begun) if (this.begun >= count) resolve();
    await new Promise<void>((resolve) => {
      this.#open.push(resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
    return { text: `done: ${user}` };
  };

  atWork(count: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.begun >= count) resolve();
      else this.#begun.push({ count, resolve });
    });
  }

  letGo(): void {
    this.#open.shift()?.();
  }
}

test("a 202 means that the record, its delivery id, its run and its session are already stored", async () => {
  const held = new Held();
  await using service = await startWebhookService({ script: held.script });
  const { status } = await service.post("hook", { a: 1 }, named("d-1"));
  assert.equal(status, 202);
  const { store } = service.test.service;
  const [row] = await service.deliveries();
  const [run] = await runs(service);
  const [session] = await sessions(service);
  assert.ok(row && run && session);
  assert.deepEqual([row.status, row.delivery_id, row.run_id], ["running", "d-1", run.id]);
  assert.deepEqual(
    [session.id, session.session_key, session.source],
    [run.session_id, "webhook:hook:d-1", "webhook"],
  );
  assert.ok(await store.find("ledger", { scope: "webhook:hook", key: "d-1" }));
  await held.atWork(1);
  held.letGo();
  const [ended] = await service.recorded((rows) => rows.every(isEnded));
  assert.equal(ended?.status, "completed");
  const message = await store.find("outbox", { id: ended?.outbox_id ?? "" });
  assert.equal(message?.ref, row.id);
});

test("concurrent deliveries run in separate sessions, and each answer goes to the outbox", async () => {
  const held = new Held();
  await using service = await startWebhookService({
    script: held.script,
    routes: { hook: {}, other: {} } as never,
  });
  const posts = [
    service.post("hook", {}, named("same")),
    service.post("other", {}, named("same")),
    service.post("hook", {}, named("next")),
  ];
  for (const { status } of await Promise.all(posts)) assert.equal(status, 202);
  await held.atWork(3);
  const made = await sessions(service);
  assert.deepEqual(made.map(({ session_key: key }) => key).toSorted(), [
    "webhook:hook:next",
    "webhook:hook:same",
    "webhook:other:same",
  ]);
  for (let i = 0; i < 3; i++) held.letGo();
  const rows = await service.recorded((all) => all.every(isEnded));
  assert.ok(rows.length === 3 && rows.every(({ outbox_id: id }) => id !== null));
});

test("an expired delivery id runs again in a new session", async () => {
  await using service = await startWebhookService();
  assert.equal((await service.post("hook", {}, named("again"))).body.status, "accepted");
  assert.equal((await service.post("hook", {}, named("again"))).body.status, "duplicate");
  const { store } = service.test.service;
  await store.write((tx) => tx.update("ledger", { scope: "webhook:hook", key: "again" }, { expires_at: 1 }));
  assert.equal((await service.post("hook", {}, named("again"))).body.status, "accepted");
  const made = await sessions(service);
  assert.equal(made.length, 2);
  assert.deepEqual(new Set(made.map(({ session_key: key }) => key)), new Set(["webhook:hook:again"]));
});

test("ids of odd letters and lengths give session names that a header can carry", async () => {
  const long = "r".repeat(128);
  await using service = await startWebhookService({ routes: { hook: {}, [long]: {} } as never });
  const ids = ["a/../b", "a:b c", "\u00e9\u00ff", "\u0085x", "x".repeat(190), "%00", '"quoted"'];
  for (const id of ids) {
    assert.equal((await service.post("hook", {}, named(id))).status, 202, id);
    assert.equal((await service.post(long, {}, named(id))).status, 202, id);
    assert.equal((await service.post("hook", {}, named(id))).body.status, "duplicate", id);
  }
  const keys = (await sessions(service)).map(({ session_key: key }) => key ?? "");
  assert.equal(new Set(keys).size, 2 * ids.length);
  for (const key of keys) checkSessionName("key", key, "the key");
});

test("runs of a route with max_concurrent wait, recorded; other routes do not; a restart continues with them", async () => {
  const held = new Held();
  const routes = { hook: { max_concurrent: 1 }, other: {} } as never;
  await using first = await startWebhookService({ script: held.script, routes });
  for (const id of ["a", "b", "c"]) assert.equal((await first.post("hook", {}, named(id))).status, 202);
  assert.equal((await first.post("other", {}, named("a"))).status, 202);
  await held.atWork(2);
  assert.deepEqual(statuses(await first.deliveries()), ["running", "accepted", "accepted", "running"]);
  assert.equal(first.test.service.runs.waiting, 2);
  held.letGo();
  await held.atWork(3);
  await first.recorded((rows) => rows[1]?.status === "running" && rows[2]?.status === "accepted");
  assert.equal((await runs(first)).filter(({ status }) => status === "queued").length, 1);

  await using second = await first.restart({ routes, script: ({ user }) => ({ text: `after: ${user}` }) });
  const rows = await second.recorded((all) => all.every(isEnded));
  assert.deepEqual(statuses(rows), ["completed", "completed", "completed", "completed"]);
  assert.equal((await runs(second)).length, 4);
  assert.equal((await second.post("hook", {}, named("b"))).body.status, "duplicate");
});

test("runs over limits.max_concurrent_runs wait and are not lost, and requests over the queue limit are refused", async () => {
  const held = new Held();
  const config = { limits: { max_concurrent_runs: 1 } };
  await using service = await startWebhookService({ script: held.script, config });
  for (const id of ["a", "b"]) assert.equal((await service.post("hook", {}, named(id))).status, 202);
  await held.atWork(1);
  assert.deepEqual(statuses(await service.deliveries()), ["running", "accepted"]);
  assert.equal((await service.test.chat({ messages: [{ role: "user", content: "hi" }] })).status, 429);
  held.letGo();
  await held.atWork(2);
  held.letGo();
  assert.deepEqual(statuses(await service.recorded((rows) => rows.every(isEnded))), [
    "completed",
    "completed",
  ]);
});

test("a run that is stopped while it waits is recorded as interrupted, and the next one starts", async () => {
  const held = new Held();
  await using service = await startWebhookService({
    script: held.script,
    routes: { hook: { max_concurrent: 1 } } as never,
  });
  for (const id of ["a", "b", "c"]) await service.post("hook", {}, named(id));
  await held.atWork(1);
  const { runs: scheduler } = service.test.service;
  const [, waiting] = await runs(service);
  assert.equal(await scheduler.stop(waiting?.id ?? "", "not needed"), true);
  held.letGo();
  await held.atWork(2);
  held.letGo();
  const rows = await service.recorded((all) => all.every(isEnded));
  assert.deepEqual(statuses(rows), ["completed", "interrupted", "completed"]);
  assert.equal(rows[1]?.reason, "not needed");
  assert.equal(scheduler.waiting, 0);
});

test("a run that used no tool before the service was shut down starts again, and one that did is interrupted", async () => {
  const held = new Held();
  const script: Script = (turn) =>
    turn.user.includes("list") && turn.step === 0
      ? { calls: [{ tool: "terminal", input: { command: "ls" } }] }
      : held.script(turn);
  const routes = { hook: { prompt: "{name}", toolsets: ["terminal"] } };
  await using first = await startWebhookService({ script, routes });
  await first.post("hook", { name: "think" }, named("thinks"));
  await first.post("hook", { name: "list" }, named("lists"));
  await held.atWork(2);
  await first.test.service.stop({ graceMs: 0 });

  await using second = await first.restart({ routes, script: ({ user }) => ({ text: `after: ${user}` }) });
  const rows = await second.recorded((all) => all.every(isEnded));
  assert.deepEqual(statuses(rows), ["completed", "interrupted"]);
  assert.match(rows[1]?.reason ?? "", /shut down/);
  assert.equal((await second.post("hook", {}, named("thinks"))).body.status, "duplicate");
  assert.equal((await second.post("hook", {}, named("lists"))).body.status, "accepted");
});

test("a run that fails closes its record as failed, with its reason", async () => {
  const script: Script = () => ({ error: { code: "provider_error", message: "The model is not there." } });
  await using service = await startWebhookService({ script });
  await service.post("hook");
  const [row] = await service.recorded((rows) => rows.every(isEnded));
  assert.deepEqual([row?.status, row?.reason], ["failed", "The model is not there."]);
});

test("an empty agent answer still becomes a message in the outbox", async () => {
  await using service = await startWebhookService({ script: () => ({ text: "" }) });
  await service.post("hook");
  const [row] = await service.recorded((rows) => rows.every(isEnded));
  assert.equal(row?.status, "completed");
  const message = await service.test.service.store.find("outbox", { id: row?.outbox_id ?? "" });
  assert.equal((JSON.parse(message?.payload ?? "{}") as { text: string }).text, "");
});

test("a `[SILENT]` answer is delivered unless the route sets `silent: suppress`", async () => {
  const routes = { hook: {}, quiet: { silent: "suppress" } } as never;
  await using service = await startWebhookService({ routes, script: () => ({ text: "[SILENT]" }) });
  await service.post("hook");
  await service.post("quiet");
  const rows = await service.recorded((all) => all.length === 2 && all.every(isEnded));
  assert.deepEqual(
    rows.map(({ route, outbox_id: id }) => [route, id !== null]),
    [
      ["hook", true],
      ["quiet", false],
    ],
  );
});

test("a delivery is acknowledged behind its record: when that fails to be written it is answered 503", async () => {
  await using service = await startWebhookService();
  const full = () => Promise.reject(new ServiceError("state_store_unavailable", "The disk is full."));
  await using changed = await serveChangedDeps(service, ({ runs }) => ({
    runs: { draining: false, submit: (prompt) => runs.submit({ ...prompt, alsoRecord: full }) },
  }));
  const { status, body } = await changed.post("hook", {}, named("free"));
  assert.deepEqual([status, body.code], [503, "store_unavailable"]);
  assert.deepEqual(await sessions(service), []);
  assert.equal((await changed.post("hook", {}, named("free"))).status, 503);
  assert.equal((await service.post("hook", {}, named("free"))).body.status, "accepted");
});

test("a delivery that cannot be recorded is answered 503 with Retry-After, and its id stays free", async () => {
  await using service = await startWebhookService();
  await service.test.service.store.close();
  const { status, body, headers } = await service.post("hook", {}, named("free"));
  assert.deepEqual([status, body.code], [503, "store_unavailable"]);
  assert.ok(Number(headers.get("retry-after")) > 0);
  await using again = await service.restart();
  assert.equal((await again.post("hook", {}, named("free"))).body.status, "accepted");
});
