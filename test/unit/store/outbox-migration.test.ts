import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { openStore } from "../../../src/store/open.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore } from "../../harness/store.ts";

/** The outbox as version 0004 had it, and nothing of what came later. */
const BEFORE = [
  ...["cron_jobs", "occurrences", "cron_tickers"].map((name) => `drop table ${name}`),
  "alter table runs drop column precedence",
  "drop index outbox_ready",
  "drop index outbox_lane",
  "drop index outbox_leased",
  "drop index outbox_failed",
  "drop index outbox_by_ref",
  ...[
    "lane",
    "queue",
    "held",
    "parts_sent",
    "retried_at",
    "tried_at",
    "uncertain_at",
    "started_at",
    "attempt_log",
  ].map((name) => `alter table outbox drop column ${name}`),
  "create index outbox_ready on outbox (available_at) where status in ('due', 'leased')",
  "create index outbox_dead on outbox (done_at) where status = 'dead'",
  "delete from kysely_migration where name >= '0005_outbox_lanes'",
];

const enqueue = (store: Store) =>
  store.write((tx) => store.outbox.enqueue(tx, { target: "chat:a", payload: {} }));

test("messages that an older version owed wait for nobody, and are sent", async (t) => {
  const { store, url } = await openTestStore(t);
  const [one, two] = [await enqueue(store), await enqueue(store)];
  const delivered = await enqueue(store);
  await store.write((tx) => tx.update("outbox", { id: delivered }, { status: "delivered", done_at: 1 }));
  await store.write(async (tx) => {
    for (const statement of BEFORE) await sql.raw(statement).execute(tx.db);
  });
  const newer = await openStore({ url });
  t.after(() => newer.close());
  const except = { targets: [], platforms: [] };
  const waiting = await newer.write((tx) => newer.outbox.waiting(tx, { except }));
  assert.deepEqual(
    waiting.map(({ id, lane }) => [id, lane]),
    [
      [one, null],
      [two, null],
    ],
  );
  const ids = waiting.map(({ id }) => id);
  const claimed = await newer.write((tx) => newer.outbox.claim(tx, { ids, limit: 2, leaseMs: 1_000 }));
  assert.deepEqual(
    claimed.map(({ id, parts_sent: parts, held }) => [id, parts, held]),
    [
      [one, 0, 0],
      [two, 0, 0],
    ],
  );
});
