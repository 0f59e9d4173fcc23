import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { createId } from "../../../src/base/text.ts";
import { statQueries, readDeliveryStats, readStats } from "../../../src/store/stats.ts";
import { openTestStore, testDialect } from "../../harness/store.ts";
import { deliveryRow, runRow, sessionRow } from "./rows.ts";

test("open runs are counted by status, ended ones are not", async (t) => {
  const { store } = await openTestStore(t);
  const session = sessionRow();
  const statuses = ["queued", "queued", "running", "waiting_for_approval"];
  await store.write(async (tx) => {
    await tx.insert("sessions", [session]);
    await tx.insert("runs", [
      ...statuses.map((status) => runRow(session.id, { status })),
      runRow(session.id, { status: "completed", ended_at: 5 }),
    ]);
  });
  const { runs } = await readStats(store);
  assert.deepEqual(Object.fromEntries(runs), { queued: 2, running: 1, waiting_for_approval: 1 });
});

test("deliveries are counted by status: the open ones, and all that are new enough", async (t) => {
  const { store } = await openTestStore(t);
  const nowMs = 1_795_000_000_000;
  const made = (status: string, agoMs: number, endedAt: number | null = nowMs) =>
    deliveryRow({ id: createId("dlv", nowMs - agoMs), status, ended_at: endedAt });
  await store.write((tx) =>
    tx.insert("deliveries", [
      made("accepted", 0, null),
      made("running", 10, null),
      made("running", 7_200_000, null),
      made("ignored", 3_600_000),
      made("ignored", 3_600_001),
      made("completed", 5),
    ]),
  );
  const { deliveries } = await readStats(store);
  assert.deepEqual(Object.fromEntries(deliveries), { accepted: 1, running: 2 });
  const newest = await readDeliveryStats(store, nowMs - 3_600_000);
  assert.deepEqual(Object.fromEntries(newest), { accepted: 1, running: 1, ignored: 1, completed: 1 });
});

test("an empty database has no counts", async (t) => {
  const { store } = await openTestStore(t);
  const { runs, deliveries } = await readStats(store);
  assert.deepEqual([runs.size, deliveries.size], [0, 0]);
});

test("each count reads only the index of its rows", { skip: testDialect !== "sqlite" }, async (t) => {
  const { store } = await openTestStore(t);
  const planOf = async (query: string) => {
    const plan = sql<{ readonly detail: string }>`explain query plan ${sql.raw(query)}`;
    return (await plan.execute(store.read)).rows.map(({ detail }) => detail).join("; ");
  };
  for (const [index, query] of [
    ["runs_active", statQueries.runs],
    ["deliveries_open", statQueries.deliveries],
  ] as const) {
    assert.match(await planOf(query), new RegExp(`USING (?:COVERING )?INDEX ${index}\\b`));
  }
});
