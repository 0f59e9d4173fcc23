/** The database fails while a run is at work: the run ends all the same, and its session goes on. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import postgres from "postgres";
import { systemClock } from "../../../src/base/time.ts";
import { retryWhileUnavailable } from "../../../src/store/tx/group.ts";
import type { TestAgent } from "../../harness/agent.ts";
import { startDatabaseProxy, type LostAt } from "../../harness/database-proxy.ts";
import { faults } from "../../harness/failing-store.ts";
import { createTestDatabase, testDialect } from "../../harness/store.ts";
import { HOW, Place } from "./outage-place.ts";

for (const fault of faults) {
  const how = HOW[fault];
  test(`whichever write of a run's life ${how}, the run ends, nothing is done twice, and the queue continues`, async (t) => {
    await using place = await Place.create(t as TestContext);
    place.writes.begin(() => undefined);
    await place.live("whole");
    assert.deepEqual(place.marks, ["echo work-whole", "rm -rf work-whole"]);
    const { count } = place.writes;
    assert.ok(count > 6, `${count} writes`);
    for (let chosen = 1; chosen <= count; chosen++) {
      place.writes.begin((write) => (write === chosen ? fault : undefined));
      await place.live(`s${chosen}`);
      await place.assertWhole(`s${chosen}`);
    }
  });
}

test("a run that ends while the database is away for a moment keeps the end that it had, and the next one runs", async (t) => {
  const held = [0, 1, 2].map(() => Promise.withResolvers<void>());
  await using place = await Place.create(t as TestContext, {
    script: async ({ user }) => {
      if (user.startsWith("first")) await held[Number(user.at(-1))]?.promise;
      return {};
    },
  });
  for (const [index, fault] of faults.entries()) {
    const session = `s${index}`;
    const first = await place.submit(`first ${index}`, session);
    const behind = await place.submit("behind", session);
    place.writes.begin((write) => (write <= (fault === "unanswered" ? 1 : 3) ? fault : undefined));
    held[index]?.resolve();
    for (const runId of [first, behind]) {
      await place.agent.events(runId);
      assert.equal((await place.agent.run(runId)).status, "completed");
    }
    await place.assertWhole(session);
  }
});

const isGivenUp = ({ logLines }: TestAgent) =>
  logLines.some((line) => line.includes('"the end of a run could not be recorded"'));

test("a run whose end cannot be written while the lease lasts is closed as interrupted, and its session continues", async (t) => {
  const release = Promise.withResolvers<void>();
  await using place = await Place.create(t as TestContext, {
    script: async ({ user }) => {
      if (user === "first") await release.promise;
      return { text: `did ${user}` };
    },
  });
  const { agent, writes } = place;
  const first = await place.submit("first", "s");
  const behind = await place.submit("behind", "s");
  writes.begin(() => (isGivenUp(agent) ? undefined : "refused"));
  release.resolve();
  await agent.events(first);
  assert.ok(isGivenUp(agent));
  assert.equal((await agent.run(first)).status, "interrupted");
  await agent.events(behind);
  assert.equal((await agent.run(behind)).output, "did behind");
  await place.assertWhole("s");
});

test("a run that is to stop and whose end cannot be written is cancelled, and the stop is over", async (t) => {
  const begun = Promise.withResolvers<void>();
  await using place = await Place.create(t as TestContext, {
    script: async ({ user, signal }) => {
      if (user !== "first") return { text: "ok" };
      begun.resolve();
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      return {};
    },
  });
  const { agent, writes } = place;
  const runId = await place.submit("first", "s");
  await begun.promise;
  // The stop itself is written.
  writes.begin((write) => (write > 1 && !isGivenUp(agent) ? "refused" : undefined));
  assert.equal(await agent.runs.stop(runId, "enough"), true);
  await agent.events(runId);
  assert.ok(isGivenUp(agent));
  assert.equal((await agent.run(runId)).status, "cancelled");
  await place.assertWhole("s");
});

const SQLITE = { skip: testDialect === "sqlite" ? false : "a fault of SQLite" };
const POSTGRES = { skip: testDialect === "postgres" ? false : "a fault of PostgreSQL" };

/** A first prompt whose answer the test holds back, with one behind it. */
async function startHeld(t: TestContext, answer: string, database?: string) {
  const release = Promise.withResolvers<void>();
  const place = await Place.create(t, {
    ...(database === undefined ? {} : { database }),
    script: async ({ user }) => {
      if (user !== "first") return { text: `did ${user}` };
      await release.promise;
      return { text: answer };
    },
  });
  const first = await place.submit("first", "s");
  const behind = await place.submit("behind", "s");
  return { place, first, behind, release: () => release.resolve() };
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

async function logged({ logLines }: TestAgent, text: string): Promise<void> {
  while (!logLines.some((line) => line.includes(text))) await nextTurn();
}

test(
  "a run that ends while another process holds the database's lock ends when that is over",
  SQLITE,
  async (t) => {
    const held = await startHeld(t as TestContext, "done");
    await using place = held.place;
    const { agent } = place;
    const other = new DatabaseSync(agent.databaseUrl);
    other.exec("begin immediate");
    held.release();
    await logged(agent, "the end of a run could not be recorded yet");
    other.exec("rollback");
    other.close();
    await agent.events(held.first);
    await agent.events(held.behind);
    assert.equal((await agent.run(held.behind)).output, "did behind");
    await place.assertWhole("s");
  },
);

test("a run whose answer does not fit on the disk ends when the disk has space again", SQLITE, async (t) => {
  const held = await startHeld(t as TestContext, "much ".repeat(100_000));
  await using place = held.place;
  const { agent } = place;
  // Again while it fails: the end of the run is tried at the same time, and a transaction they share fails as a whole.
  const setPages = (count: number) =>
    retryWhileUnavailable(
      () =>
        agent.store.write(
          async (tx) => void (await sql.raw(`pragma max_page_count = ${count}`).execute(tx.db)),
        ),
      { clock: systemClock, forMs: 30_000 },
    );
  // Never less than there are: no page can be added from now on.
  await setPages(1);
  held.release();
  await logged(agent, "the end of a run could not be recorded yet");
  await setPages(1_000_000_000);
  await agent.events(held.first);
  await agent.events(held.behind);
  assert.equal((await agent.run(held.behind)).output, "did behind");
  await place.assertWhole("s");
});

for (const where of ["inside", "commit"] as const satisfies readonly LostAt[]) {
  const how = where === "inside" ? "in the middle" : "between the commit and its answer";
  test(
    `whichever transaction of a run's life loses its connection ${how}, the run ends, nothing is done twice, and the queue goes on`,
    POSTGRES,
    async (t) => {
      const database = await createTestDatabase();
      await using proxy = await startDatabaseProxy(database.url);
      {
        await using place = await Place.create(t as TestContext, { database: proxy.url });
        proxy.loseAt(0, where);
        await place.live("whole");
        const count = proxy.transactions;
        assert.ok(count > 6, `${count} transactions`);
        for (let chosen = 1; chosen <= count; chosen++) {
          proxy.loseAt(chosen, where);
          await place.live(`s${chosen}`);
          proxy.loseAt(0, where);
          await place.assertWhole(`s${chosen}`);
        }
      }
      await database.drop();
    },
  );
}

test("a run that ends while the server is away ends when it is back", POSTGRES, async (t) => {
  const database = await createTestDatabase();
  await using proxy = await startDatabaseProxy(database.url);
  {
    const held = await startHeld(t as TestContext, "done", proxy.url);
    await using place = held.place;
    proxy.goAway();
    held.release();
    await logged(place.agent, "the end of a run could not be recorded yet");
    proxy.comeBack();
    await place.agent.events(held.first);
    await place.agent.events(held.behind);
    assert.equal((await place.agent.run(held.behind)).output, "did behind");
    await place.assertWhole("s");
  }
  await database.drop();
});

test(
  "a run whose connection the server ends as it writes its end is ended all the same",
  POSTGRES,
  async (t) => {
    const database = await createTestDatabase();
    const [server = ""] = database.url.split("?");
    const schema = new URLSearchParams(database.url.split("?")[1]).get("schema");
    {
      const held = await startHeld(
        t as TestContext,
        "done",
        `${database.url}&application_name=agentd-${schema}`,
      );
      await using place = held.place;
      const admin = postgres(server, { max: 1 });
      const { write } = place.agent.store;
      let kills = 3;
      t.mock.method(place.agent.store, "write", (...[work, options]: Parameters<typeof write>) =>
        write(async (tx) => {
          const value = await work(tx);
          if (kills-- > 0) {
            await admin`select pg_terminate_backend(pid) from pg_stat_activity
            where application_name = ${`agentd-${schema}`} and state = 'idle in transaction'`;
          }
          return value;
        }, options),
      );
      held.release();
      await place.agent.events(held.first);
      await place.agent.events(held.behind);
      await admin.end();
      await place.assertWhole("s");
    }
    await database.drop();
  },
);
