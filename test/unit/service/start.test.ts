import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { createLog } from "../../../src/base/observe.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import { startFromHome, type StartedService, type StartOptions } from "../../../src/app/start.ts";
import { createTestDatabase } from "../../harness/store.ts";

interface Place {
  readonly home: string;
  readonly logLines: string[];
  start(more?: Partial<StartOptions>): Promise<StartedService>;
  /** Writes `config.yaml`; nothing of this machine's is asked for a model. */
  configure(yaml: string): Promise<void>;
}

/** A home that does not exist yet, with a database of its own. What is started is stopped with the test. */
async function createPlace(t: TestContext): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), "agentd-boot-"));
  const home = join(folder, "home");
  const database = await createTestDatabase({ bare: true });
  const started: StartedService[] = [];
  const logLines: string[] = [];
  t.after(async () => {
    for (const running of started) await running.service.stop({ graceMs: 0 });
    await database.drop();
    await rm(folder, { recursive: true, force: true });
  });
  const start = async ({ env = {}, ...more }: Partial<StartOptions> = {}) => {
    const log = createLog("debug", (line) => void logLines.push(line));
    const running = await startFromHome({
      home,
      port: 0,
      log,
      ...more,
      env: { AGENTD_DATABASE_URL: database.url, ...env },
    });
    started.push(running);
    return running;
  };
  const configure = async (yaml: string) => {
    await (await start()).service.stop({ graceMs: 0 });
    await writeFile(join(home, "config.yaml"), `version: 1\n${yaml}`);
  };
  return { home, logLines, start, configure };
}

async function keyOf(home: string): Promise<string> {
  return /^API_SERVER_KEY=(.+)$/m.exec(await readFile(join(home, ".env"), "utf8"))![1]!;
}

function chat({ service }: StartedService, key: string, content = "hi"): Promise<Response> {
  return fetch(`${service.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ messages: [{ role: "user", content }] }),
  });
}

const modeOf = async (path: string) => ((await stat(path)).mode & 0o777).toString(8);

test("the first start creates a private home and a key, and answers without configuration", async (t) => {
  const place = await createPlace(t);
  const running = await place.start({ env: {} });
  assert.equal(await modeOf(place.home), "700");
  assert.equal(await modeOf(join(place.home, ".env")), "600");
  assert.equal(running.keyCreated, true);
  assert.equal(running.keyFile, join(place.home, ".env"));
  const key = await keyOf(place.home);
  assert.equal((await chat(running, "wrong-key-wrong-key")).status, 401);
  const answer = await chat(running, key);
  assert.equal(answer.status, 200);
  assert.equal(typeof (await answer.json()).choices[0].message.content, "string");
});

test("the next start keeps the key and the home as they are", async (t) => {
  const place = await createPlace(t);
  await (await place.start()).service.stop();
  const key = await keyOf(place.home);
  const again = await place.start();
  assert.equal(again.keyCreated, false);
  assert.equal((await chat(again, key)).status, 200);
});

test("two concurrent first starts on one home agree on the key", async (t) => {
  const place = await createPlace(t);
  const [one, two] = await Promise.all([place.start(), place.start()]);
  const key = await keyOf(place.home);
  assert.equal((await chat(one, key)).status, 200);
  assert.equal((await chat(two, key)).status, 200);
  assert.deepEqual([one.keyCreated, two.keyCreated].filter(Boolean).length, 1);
});

test("an invalid configuration is rejected with line and column", async (t) => {
  const place = await createPlace(t);
  await place.configure("api_server:\n  port: 8642\nlimits:\n  max_body_bytes: lots\n  max_bdoy: 1\n");
  await assert.rejects(place.start(), (error) => {
    assert.ok(error instanceof ServiceError);
    assert.equal(error.code, "invalid_config");
    assert.match(error.message, /limits\.max_body_bytes/);
    assert.match(error.message, /config\.yaml:5:\d+/);
    return true;
  });
});

test("an unknown toolset is rejected by name, and nothing stays open", async (t) => {
  const place = await createPlace(t);
  await place.configure("agent:\n  toolsets: [terminal, teleport]\n");
  await assert.rejects(place.start(), (error) => {
    assert.ok(error instanceof ServiceError);
    assert.match(error.message, /teleport/);
    return true;
  });
  await writeFile(join(place.home, "config.yaml"), "version: 1\nagent:\n  toolsets: [terminal]\n");
  assert.equal((await chat(await place.start(), await keyOf(place.home))).status, 200);
});

test("AGENTD_DATABASE_URL selects the database", async (t) => {
  const place = await createPlace(t);
  const running = await place.start();
  await (await chat(running, await keyOf(place.home))).text();
  await assert.rejects(stat(join(place.home, "state.db")), { code: "ENOENT" });
  await running.service.stop();
  const runs = async (other: StartedService) =>
    (await other.service.store.read.selectFrom("runs").select("id").execute()).length;
  assert.equal(await runs(await place.start()), 1);
  const elsewhere = await createTestDatabase();
  const fresh = await place.start({ env: { AGENTD_DATABASE_URL: elsewhere.url } });
  assert.equal(await runs(fresh), 0);
  await fresh.service.stop();
  await elsewhere.drop();
});

test("concurrent and repeated stops stop the service once", async (t) => {
  const place = await createPlace(t);
  const { service } = await place.start();
  const all = [service.stop(), service.stop({ graceMs: 0 }), service.stop()];
  assert.equal(new Set(all).size, 1);
  await Promise.all(all);
  await service.stop();
  await assert.rejects(fetch(`${service.url}/health`));
});

test("a start on a port in use closes everything and can be repeated at once", async (t) => {
  const place = await createPlace(t);
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
  const { port } = taken.address() as AddressInfo;
  for (let i = 0; i < 3; i++) {
    await assert.rejects(place.start({ port }), /in use/);
  }
  await new Promise((resolve) => taken.close(resolve));
  const running = await place.start({ port });
  assert.equal(new URL(running.service.url).port, String(port));
  assert.equal((await chat(running, await keyOf(place.home))).status, 200);
});

test("a database that cannot be opened is reported without its password", async (t) => {
  const place = await createPlace(t);
  const url = "postgres://agentd:hunter2hunter2@127.0.0.1:1/nothing";
  await assert.rejects(place.start({ env: { AGENTD_DATABASE_URL: url } }), (error) => {
    assert.ok(error instanceof ServiceError);
    assert.equal(error.code, "state_store_unavailable");
    assert.doesNotMatch(error.message, /hunter2/);
    return true;
  });
});

test("no secret of the configuration reaches the log or a response", async (t) => {
  const place = await createPlace(t);
  const secrets: readonly [string, string] = ["plain-provider-key-77", "second provider key 88"];
  await place.configure(
    [
      "model:",
      "  default: one:m",
      "  providers:",
      "    one: { type: openai_compatible, base_url: http://127.0.0.1:1/v1, api_key: plain-provider-key-77, models: [m] }",
      "    two: { type: openai_compatible, base_url: http://127.0.0.1:1/v1, api_key: env:SECOND_KEY, models: [m] }",
      "",
    ].join("\n"),
  );
  const running = await place.start({ env: { SECOND_KEY: secrets[1] }, engine: leaky });
  const key = await keyOf(place.home);
  for (const secret of [...secrets, key]) {
    running.log.error(`a provider said ${secret}`, {
      error: new Error(secret),
      json: JSON.stringify({ secret }),
    });
  }
  const { status } = await chat(running, key, "fail");
  assert.equal(status, 500);
  const log = place.logLines.join("");
  for (const secret of [...secrets, key]) assert.ok(!log.includes(secret), `the log holds ${secret}`);
  assert.match(log, /a provider said \[redacted\]/);
});

/** An engine that breaks its promise and throws what it must not say. */
const leaky: NonNullable<StartOptions["engine"]> = {
  name: "leaky",
  runTurn: () => Promise.reject(new Error("plain-provider-key-77 was refused")),
};
