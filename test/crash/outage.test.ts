/** The database is away while a gateway has a run at work, and gateways that are killed while they settle what was left. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { createAgentClient, streamRunEvents, type Run } from "../../src/client/http.ts";
import { openStore } from "../../src/store/open.ts";
import { abandonSessions } from "../harness/abandoned.ts";
import { startDatabaseProxy } from "../harness/database-proxy.ts";
import { createGatewayPlace, type GatewayProcess } from "../harness/gateway.ts";
import { createTestDatabase, testDialect } from "../harness/store.ts";

const MARKS = "run: sleep 1; echo once >> marks.txt";
const SESSION = { "X-Agent-Session-Id": "outage" };

interface Faulty extends AsyncDisposable {
  readonly url: string;
  goAway(): void;
  comeBack(): void;
}

/** A database that can be away: locked by somebody else, or its server not there. */
async function createFaultyDatabase(): Promise<Faulty> {
  const database = await createTestDatabase();
  if (testDialect === "postgres") {
    const proxy = await startDatabaseProxy(database.url);
    const dispose = async () => {
      await proxy[Symbol.asyncDispose]();
      await database.drop();
    };
    return {
      url: proxy.url,
      goAway: () => proxy.goAway(),
      comeBack: () => proxy.comeBack(),
      [Symbol.asyncDispose]: dispose,
    };
  }
  await (await openStore({ url: database.url })).close();
  const holder = new DatabaseSync(database.url);
  return {
    url: database.url,
    goAway: () => holder.exec("begin immediate"),
    comeBack: () => holder.exec("rollback"),
    async [Symbol.asyncDispose]() {
      holder.close();
      await database.drop();
    },
  };
}

async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await new Promise((resolve) => setTimeout(resolve, 20));
}

for (const isKilled of [false, true]) {
  const what = isKilled
    ? "a gateway that is killed while its database is away leaves"
    : "a gateway whose database was away as a run ended has";
  test(`${what} the run to be ended, its tool ran once, and the queue continues`, async () => {
    await using database = await createFaultyDatabase();
    await using place = await createGatewayPlace({ AGENTD_DATABASE_URL: database.url });
    let at = await place.start();
    const apiKey = await place.key();
    const client = () => createAgentClient({ baseUrl: at.url, apiKey });
    const start = async (input: string) =>
      (await client().createRun({ body: { input }, headers: SESSION })).data!.run_id;
    const [first, behind] = [await start(MARKS), await start("run: echo behind >> marks.txt")];
    for await (const { event } of streamRunEvents({ baseUrl: at.url, apiKey }, first)) {
      if (event === "tool.started") break;
    }
    database.goAway();
    const { stderr } = at;
    await until(() => stderr().includes("the end of a run could not be recorded yet"));
    if (isKilled) await at.kill("SIGKILL");
    database.comeBack();
    if (isKilled) at = await place.start();
    assert.match((await ended(at, apiKey, first)).status, /^(failed|interrupted|completed)$/);
    assert.equal((await ended(at, apiKey, behind)).status, "completed");
    const after = await start("run: echo after >> marks.txt");
    assert.equal((await ended(at, apiKey, after)).status, "completed");
    const marks = await readFile(join(place.home, "workspace", "marks.txt"), "utf8");
    assert.equal(marks, "once\nbehind\nafter\n");
    assert.equal(await at.kill("SIGTERM"), 0, at.stderr());
  });
}

async function ended(at: GatewayProcess, apiKey: string, runId: string): Promise<Run> {
  const client = createAgentClient({ baseUrl: at.url, apiKey });
  for (;;) {
    const { data } = await client.getRun({ path: { run_id: runId }, query: { wait: 20 } });
    if (data?.ended_at) return data;
  }
}

test("gateways that are killed while they settle what was left settle all of it in the end, each run once", async () => {
  const COUNT = 256;
  const KILLS = 3;
  const database = await createTestDatabase();
  await using place = await createGatewayPlace({ AGENTD_DATABASE_URL: database.url });
  const store = await openStore({ url: database.url });
  try {
    const left = await abandonSessions(store, COUNT, "default");
    const openRuns = async () => {
      const open = store.read.selectFrom("runs").select(({ fn }) => fn.countAll().as("count"));
      return Number((await open.where("ended_at", "is", null).executeTakeFirstOrThrow()).count);
    };
    for (let kill = 1; kill <= KILLS; kill++) {
      const starting = place.start();
      // Somewhere in the middle: what is left is shared out among the kills.
      const enough = COUNT - (COUNT / (KILLS + 1)) * kill;
      await until(async () => (await openRuns()) <= enough);
      const gateway = await starting;
      await gateway.kill("SIGKILL");
    }
    const last = await place.start();
    await until(async () => (await openRuns()) === 0);
    const { read } = store;
    const events = await read.selectFrom("events").select(["run_id", "type"]).orderBy("run_seq").execute();
    const messages = await read.selectFrom("messages").select(["run_id", "role"]).orderBy("seq").execute();
    const of = <T extends { run_id: string | null }>(rows: readonly T[], id: string) =>
      rows.filter((row) => row.run_id === id);
    for (const { runId } of left) {
      const types = of(events, runId).map(({ type }) => type);
      const said = ["run.started", "message.delta", "tool.started"];
      assert.deepEqual(types, [...said, "tool.completed", "run.interrupted"]);
      const roles = of(messages, runId).map(({ role }) => role);
      assert.deepEqual(roles, ["assistant", "tool"]);
    }
    assert.equal(await last.kill("SIGTERM"), 0, last.stderr());
  } finally {
    await store.close();
    await database.drop();
  }
});
