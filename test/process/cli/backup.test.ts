/** `agentd backup` beside a running gateway, and services started on what it made. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { createAgentClient } from "../../../src/client/http.ts";
import { agentd } from "../../harness/agentd.ts";
import { createGatewayPlace, type GatewayPlace, type GatewayProcess } from "../../harness/gateway.ts";

/** The database of the home, whatever the tests use elsewhere. */
const SQLITE = { AGENTD_DATABASE_URL: "" };

async function clientOf(place: GatewayPlace, { url }: GatewayProcess) {
  return createAgentClient({ baseUrl: url, apiKey: await place.key() });
}

async function scratch(t: { after(clean: () => Promise<void>): void }): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "agentd-backup-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

test("a backup made during runs restores everything that was acknowledged", async (t) => {
  await using place = await createGatewayPlace(SQLITE);
  const target = join(await scratch(t), "copy");
  const first = await place.start();
  const client = await clientOf(place, first);
  const start = async (input: string, session_id: string) => {
    const { data } = await client.createRun({ body: { input, session_id } });
    assert.ok(data, first.stderr());
    return data.run_id;
  };
  const done = await start("run: echo done", "a");
  assert.equal(
    (await client.getRun({ path: { run_id: done }, query: { wait: 20 } })).data?.status,
    "completed",
  );
  const working = await start("run: sleep 60", "b");
  const queued = await start("run: echo queued", "b");
  await mkdir(join(place.home, "skills", "s"), { recursive: true });
  await writeFile(join(place.home, "skills", "s", "SKILL.md"), "---\nname: s\ndescription: d\n---\nx\n");
  await agentd(["cron", "create", "every 1h", "hi", "--name", "hourly"], { AGENTD_HOME: place.home });

  const { code, stdout, stderr } = await agentd(["backup", target], { AGENTD_HOME: place.home });
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^Backed up \S+ to \S+copy: \d+ files, with the database\.\nTo restore it, /);
  assert.match(stderr, /^The backup does not include the workspace: \S+workspace\n$/);
  assert.equal((await stat(target)).mode & 0o777, 0o700);
  assert.equal((await stat(join(target, "state.db"))).mode & 0o777, 0o600);
  assert.equal((await stat(join(target, ".env"))).mode & 0o777, 0o600);
  const names = await readdir(target);
  for (const name of ["state.db-wal", "state.db-shm", "cache", "workspace", ".lock"])
    assert.ok(!names.includes(name), name);
  assert.match(await readFile(join(target, "skills", "s", "SKILL.md"), "utf8"), /name: s/);
  assert.equal(
    (await client.getRun({ path: { run_id: working } })).data?.status,
    "running",
    "the original goes on",
  );
  await first.kill("SIGKILL");

  await using restored = await createGatewayPlace({ ...SQLITE, AGENTD_HOME: target });
  const second = await restored.start();
  const again = createAgentClient({ baseUrl: second.url, apiKey: await place.key() });
  const statusOf = async (run_id: string) =>
    (await again.getRun({ path: { run_id }, query: { wait: 30 } })).data?.status;
  assert.equal(await statusOf(done), "completed");
  assert.equal(await statusOf(working), "interrupted");
  assert.equal(await statusOf(queued), "completed");
  const { data: next } = await again.createRun({ body: { input: "run: echo next", session_id: "a" } });
  assert.equal(await statusOf(next?.run_id ?? ""), "completed");
  assert.match((await agentd(["cron", "list"], { AGENTD_HOME: target })).stdout, /hourly/);
  assert.equal(await second.kill("SIGTERM"), 0, second.stderr());
});

test("a backup inside the home or over an existing path is rejected, and a partial one never gets its name", async (t) => {
  const folder = await scratch(t);
  const env = { AGENTD_HOME: join(folder, "home") };
  const missing = await agentd(["backup", join(folder, "copy")], env);
  assert.deepEqual(
    [missing.code, missing.stderr],
    [1, `Nothing to back up: ${env.AGENTD_HOME} does not exist.\n`],
  );
  await agentd(["config", "set", "log.level", "info"], env);
  const inside = await agentd(["backup", join(folder, "home", "copy")], env);
  assert.equal(inside.code, 1);
  assert.match(inside.stderr, /is inside the home\. Choose a folder outside of /);
  const taken = await agentd(["backup", folder], env);
  assert.equal(taken.code, 1);
  assert.match(taken.stderr, /already exists\. Choose a new folder\.\n$/);
  const unmade = await agentd(["backup", join(folder, "home", "config.yaml", "copy")], env);
  assert.equal(unmade.code, 1);
  const file = join(folder, "file");
  await writeFile(file, "");
  const below = await agentd(["backup", join(file, "copy")], env);
  assert.equal(below.code, 1);
  assert.match(below.stderr, /^Cannot create the backup \S+ \(E[A-Z]+\)\. Check [^\n]*\n$/);
  await writeFile(join(folder, "home", "state.db"), "this is no database ".repeat(500));
  const damaged = await agentd(["backup", join(folder, "copy")], env);
  assert.equal(damaged.code, 1);
  assert.match(damaged.stderr, /^The file is not a SQLite database\.\n$/);
  assert.deepEqual((await readdir(folder)).toSorted(), ["file", "home"]);
});

test("a backup without a database, or with one on a server, says what it does not include", async (t) => {
  const folder = await scratch(t);
  const env = { AGENTD_HOME: join(folder, "home") };
  await agentd(["config", "set", "log.level", "info"], env);
  const bare = await agentd(["backup", join(folder, "bare"), "--json"], env);
  assert.deepEqual(JSON.parse(bare.stdout), { folder: join(folder, "bare"), files: 1, database: "absent" });
  const server = { ...env, AGENTD_DATABASE_URL: "postgres://me@127.0.0.1:1/nowhere" };
  const remote = await agentd(["backup", join(folder, "remote")], server);
  assert.equal(remote.code, 0, remote.stderr);
  assert.match(
    remote.stderr,
    /^The backup does not include the database, which is on a PostgreSQL server\. Copy it with `pg_dump`/,
  );
  await mkdir(join(folder, "home", "workspace"));
  await writeFile(join(folder, "home", "workspace", "a.txt"), "mine");
  await agentd(["backup", join(folder, "whole"), "--workspace"], env);
  assert.equal(await readFile(join(folder, "whole", "workspace", "a.txt"), "utf8"), "mine");
});
