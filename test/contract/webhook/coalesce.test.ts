/** Events that are taken together: of several in a short time only the newest is handled. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { DeliveryRow } from "../../../src/store/schema/tables.ts";
import { startWebhookService, type WebhookService } from "../../harness/webhook.ts";

const named = (id: string) => ({ headers: { "x-github-delivery": id } });
const isEnded = ({ ended_at: at }: DeliveryRow) => at !== null;
const summary = (rows: readonly DeliveryRow[]) => rows.map((row) => [row.delivery_id, row.status]);

/** Quiet for a second, or for as long as the test takes. */
const routes = {
  hook: { prompt: "PR {pr} at {sha}", coalesce: { key: "{pr}", window_seconds: 1 } },
  slow: {
    prompt: "PR {pr} at {sha}",
    coalesce: { key: "{pr}", window_seconds: 3600, max_wait_seconds: 3600 },
  },
  capped: {
    prompt: "PR {pr} at {sha}",
    coalesce: { key: "{pr}", window_seconds: 3600, max_wait_seconds: 1 },
  },
} as never;

async function prompts(service: WebhookService): Promise<readonly string[]> {
  const runs = await service.test.service.store.read
    .selectFrom("runs")
    .select("input")
    .orderBy("id")
    .execute();
  return runs.map(({ input }) => (JSON.parse(input) as { prompt: { text: string }[] }).prompt[0]?.text ?? "");
}

test("of several events with one key only the newest is handled after the window, with a note on the others", async () => {
  await using service = await startWebhookService({ routes });
  for (const [id, sha] of [
    ["d1", "a1"],
    ["d2", "b2"],
    ["d3", "c3"],
  ] as const) {
    const answer = await service.post("hook", { pr: 1, sha }, named(id));
    assert.equal(answer.status, 202);
    assert.deepEqual(answer.body, { status: "coalesced", route: "hook", event: "unknown", delivery_id: id });
  }
  await service.post("hook", { pr: 2, sha: "zz" }, named("other"));
  const rows = await service.recorded((all) => all.every(isEnded));
  assert.deepEqual(summary(rows), [
    ["d1", "ignored"],
    ["d2", "ignored"],
    ["d3", "completed"],
    ["other", "completed"],
  ]);
  assert.match(rows[0]?.reason ?? "", new RegExp(`newer event .*${rows[1]?.id}`));
  const asked = await prompts(service);
  assert.equal(asked.length, 2);
  const newest = asked.find((text) => text.includes("c3")) ?? "";
  assert.match(newest, /2 earlier events were superseded/);
  const other = asked.find((text) => text.includes("zz"));
  assert.ok(other !== undefined && !other.includes("superseded"), other);
});

test("the first event waits no longer than max_wait_seconds, however many follow", async () => {
  await using service = await startWebhookService({ routes });
  await service.post("capped", { pr: 1, sha: "a" }, named("d1"));
  await service.post("capped", { pr: 1, sha: "b" }, named("d2"));
  const rows = await service.recorded((all) => all.every(isEnded));
  assert.deepEqual(summary(rows), [
    ["d1", "ignored"],
    ["d2", "completed"],
  ]);
});

test("an event without the fields of the key is handled at once, and a repeated id is a duplicate", async () => {
  await using service = await startWebhookService({ routes });
  assert.equal((await service.post("slow", { sha: "a" }, named("d1"))).body.status, "accepted");
  assert.equal((await service.post("slow", { pr: 1, sha: "a" }, named("d2"))).body.status, "coalesced");
  assert.equal((await service.post("slow", { pr: 1, sha: "b" }, named("d2"))).body.status, "duplicate");
  const pending = await service.test.service.store.read.selectFrom("pending_events").selectAll().execute();
  assert.deepEqual(
    pending.map(({ superseded }) => superseded),
    [0],
  );
});

test("many simultaneous events with one key are one run", async () => {
  await using service = await startWebhookService({ routes });
  const ids = Array.from({ length: 20 }, (_, index) => `d${index}`);
  const answers = await Promise.all(ids.map((id) => service.post("hook", { pr: 1, sha: id }, named(id))));
  assert.ok(answers.every(({ body }) => body.status === "coalesced"));
  const rows = await service.recorded((all) => all.length === 20 && all.every(isEnded));
  assert.equal(rows.filter(({ status }) => status === "completed").length, 1);
  const asked = await prompts(service);
  assert.equal(asked.length, 1);
  assert.match(asked[0] ?? "", /19 earlier events were superseded/);
});

test("an event that waits when the service stops is handled when due after the next start", async () => {
  await using first = await startWebhookService({ routes });
  await first.post("slow", { pr: 1, sha: "a" }, named("d1"));
  await first.post("hook", { pr: 1, sha: "b" }, named("d2"));
  await using second = await first.restart({ routes });
  await second.recorded((rows) => rows.some((row) => row.delivery_id === "d2" && isEnded(row)));
  const { store } = second.test.service;
  assert.equal((await second.deliveries())[0]?.status, "accepted");
  await store.write((tx) => tx.update("pending_events", { superseded: 0 }, { due_at: 1 }));
  await using third = await second.restart({ routes });
  const rows = await third.recorded((all) => all.every(isEnded));
  assert.deepEqual(summary(rows), [
    ["d1", "completed"],
    ["d2", "completed"],
  ]);
  assert.equal((await third.post("slow", { pr: 1, sha: "a" }, named("d1"))).body.status, "duplicate");
});
