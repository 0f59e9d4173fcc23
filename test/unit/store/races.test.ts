import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { Grants } from "../../../src/agent/question/grants.ts";
import { saveSession } from "../../../src/agent/session/sessions.ts";
import { Jobs } from "../../../src/cron/job/jobs.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import type { Store } from "../../../src/store/store.ts";
import type { Tx } from "../../../src/store/tx/tx.ts";
import { keepFailedMessages } from "../../../src/webhook/receive/event.ts";
import { definition } from "../../harness/cron.ts";
import { openTestStore } from "../../harness/store.ts";
import { sessionRow } from "./rows.ts";

/** Two processes do the same at the same instant, again and again under another name. */
async function race(
  stores: readonly Store[],
  work: (store: Store, name: string) => Promise<unknown>,
): Promise<void> {
  for (let round = 0; round < 20; round++) {
    await Promise.all(stores.map((store) => work(store, `name ${round}`)));
  }
}

test("a session that two processes save at once is saved once", async (t) => {
  const { store, openAnother } = await openTestStore(t);
  const stores = [store, await openAnother()];
  await race(stores, (each, id) => saveSession(each, { id, owner: "a", seed: { source: "test" } }));
  assert.equal((await store.read.selectFrom("sessions").select("id").execute()).length, 20);
});

test("a permission that two processes grant at once is granted", async (t) => {
  const { store, openAnother } = await openTestStore(t);
  const stores = [store, await openAnother()];
  await race(stores, (each, signature) =>
    new Grants(each).allowAlways({ owner: "a", signature, tool: "terminal", title: "x" }, "lena"),
  );
  assert.equal((await new Grants(store).list("a")).length, 20);
});

test("messages that failed in two processes at once are kept", async (t) => {
  const { store, openAnother } = await openTestStore(t);
  const stores = [store, await openAnother()];
  await race(stores, (each, deliveryId) =>
    each.write((tx) => keepFailedMessages(tx, { route: "r", deliveryId }, [{ id: "out_1", target: "a:b" }])),
  );
  assert.equal((await store.read.selectFrom("ledger").select("key").execute()).length, 20);
});

test("of two processes that create a job with one id at once, one sees that it exists", async (t) => {
  const { store, openAnother } = await openTestStore(t);
  const outcomes: string[] = [];
  await race([store, await openAnother()], async (each, name) => {
    const id = Buffer.from(name).toString("hex").slice(-12);
    const jobs = new Jobs(each, { maxJobs: 100 });
    await jobs.create(definition({}), { past: { id } }).then(
      () => outcomes.push("made"),
      (error: unknown) => outcomes.push(error instanceof ServiceError ? error.code : String(error)),
    );
  });
  const count = (what: string) => outcomes.filter((outcome) => outcome === what).length;
  assert.deepEqual([count("made"), count("invalid_request")], [20, 20], outcomes.join(", "));
});

const titled = (title: string) => sessionRow({ id: `s-${title}`, title });

test("a work that looks before it inserts joins what another process inserted meanwhile, beside other works", async (t) => {
  const { store, openAnother } = await openTestStore(t);
  const other = await openAnother();
  const row = titled("same");
  const joinOrInsert = async (tx: Tx) => {
    const known = await tx.find("sessions", { id: row.id });
    if (known) return "joined";
    await tx.insert("sessions", [row]);
    return "inserted";
  };
  const inserted = Promise.withResolvers<void>();
  const slow = store.write(async (tx) => {
    const how = await joinOrInsert(tx);
    // An insert is sent without waiting for its answer; an answer to what follows it shows that it is done.
    await tx.find("sessions", { id: row.id });
    inserted.resolve();
    // On PostgreSQL the other looks and inserts while this transaction is open, and waits for its end.
    if (store.dialect === "postgres") await untilBlocked(store);
    return how;
  });
  await inserted.promise;
  const [joined, behind] = await Promise.all([
    other.write(joinOrInsert),
    other.write((tx) => tx.insert("sessions", [titled("z")]).then(() => "behind")),
  ]);
  assert.deepEqual([await slow, joined, behind], ["inserted", "joined", "behind"]);
  const rows = await store.read.selectFrom("sessions").select("title").orderBy("title").execute();
  assert.deepEqual(
    rows.map(({ title }) => title),
    ["same", "z"],
  );
});

/** Resolves when a statement of another connection waits for this one's transaction. */
async function untilBlocked(store: Store): Promise<void> {
  for (;;) {
    const { rows } = await sql<{ count: string }>`
      select count(*) as count from pg_locks join pg_stat_activity on pg_locks.pid = pg_stat_activity.pid
      where not granted and locktype = 'transactionid' and datname = current_database()
    `.execute(store.read);
    if (Number(rows[0]?.count) > 0) return;
  }
}
