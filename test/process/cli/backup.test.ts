/** `agentd backup` beside a running gateway, and services started on what `agentd restore` makes of it. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { watch } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync, gzipSync } from "node:zlib";
import { createAgentClient } from "../../../src/client/http.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { createGatewayPlace, type GatewayPlace, type GatewayProcess } from "../../harness/gateway.ts";
import { agentdCommand, programEnvironment } from "../../harness/program.ts";

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
  const folder = await scratch(t);
  const [file, target] = [join(folder, "copy.tar.gz"), join(folder, "home")];
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
  const skill = join(place.home, "skills", "s");
  await mkdir(skill, { recursive: true });
  await writeFile(join(skill, "SKILL.md"), "---\nname: s\ndescription: d\n---\nx\n");
  await symlink("SKILL.md", join(skill, "link"));
  // Names that need more than the fixed fields of a tar header.
  const long = `${"long name ".repeat(15)}Ünïcode`;
  await writeFile(join(skill, long), "x".repeat(100_000), { mode: 0o700 });
  const env = { AGENTD_HOME: place.home };
  await keptAgentd(["cron", "create", "every 1h", "hi", "--name", "hourly"], env);

  const { code, stdout, stderr } = await keptAgentd(["backup", file, "--secrets"], env);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^Backed up \S+ to \S+copy\.tar\.gz: \d+ files, with the database\.\nCheck it with /);
  assert.match(stderr, /^The backup does not include the workspace: \S+workspace\n$/);
  assert.equal((await stat(file)).mode & 0o777, 0o600);
  assert.deepEqual((await readdir(folder)).toSorted(), ["copy.tar.gz"], "nothing beside the file");
  assert.equal(
    (await client.getRun({ path: { run_id: working } })).data?.status,
    "running",
    "the original goes on",
  );
  const busy = await keptAgentd(["restore", file, "--force"], env);
  assert.equal(busy.code, 1);
  assert.match(busy.stderr, /^A process of agentd uses \S+state\.db\. Stop the gateway/);
  await first.kill("SIGKILL");

  const restored = await keptAgentd(["restore", file], { AGENTD_HOME: target });
  assert.equal(restored.code, 0, restored.stderr);
  assert.match(restored.stdout, /^Restored \S+ from \S+: \d+ files, with the database\.\n$/);
  assert.equal(restored.stderr, "");
  const modes = ["", "state.db", ".env", "skills/s/SKILL.md", `skills/s/${long}`].map(
    async (name) => (await stat(join(target, name))).mode & 0o777,
  );
  const skillMode = (await stat(join(skill, "SKILL.md"))).mode & 0o777;
  assert.deepEqual(await Promise.all(modes), [0o700, 0o600, 0o600, skillMode, 0o700]);
  const names = await readdir(target);
  for (const name of ["state.db-wal", "cache", "workspace", "logs", ".restore.json"])
    assert.ok(!names.includes(name), name);
  assert.ok(!names.some((name) => /^replaced-|^\.restore/.test(name)), names.join());
  assert.match(await readFile(join(target, "skills", "s", "link"), "utf8"), /name: s/);
  assert.equal((await readFile(join(target, "skills", "s", long))).length, 100_000);

  await using again = await createGatewayPlace({ ...SQLITE, AGENTD_HOME: target });
  const second = await again.start();
  const next = createAgentClient({ baseUrl: second.url, apiKey: await place.key() });
  const statusOf = async (run_id: string) =>
    (await next.getRun({ path: { run_id }, query: { wait: 30 } })).data?.status;
  assert.equal(await statusOf(done), "completed");
  assert.equal(await statusOf(working), "interrupted");
  assert.equal(await statusOf(queued), "completed");
  assert.match((await keptAgentd(["cron", "list"], { AGENTD_HOME: target })).stdout, /hourly/);
  assert.equal(await second.kill("SIGTERM"), 0, second.stderr());
});

test("a backup inside the home or over an existing path is rejected, and a partial one never gets its name", async (t) => {
  const folder = await scratch(t);
  const env = { AGENTD_HOME: join(folder, "home") };
  const missing = await keptAgentd(["backup", join(folder, "copy")], env);
  assert.deepEqual(
    [missing.code, missing.stderr],
    [1, `Nothing to back up: ${env.AGENTD_HOME} does not exist.\n`],
  );
  await keptAgentd(["config", "set", "log.level", "info"], env);
  const inside = await keptAgentd(["backup", join(folder, "home", "copy")], env);
  assert.equal(inside.code, 1);
  assert.match(inside.stderr, /is inside the home\. Choose a path outside /);
  const file = join(folder, "file");
  await writeFile(file, "");
  const taken = await keptAgentd(["backup", file], env);
  assert.equal(taken.code, 1);
  assert.match(taken.stderr, /already exists\. Choose a new file\.\n$/);
  const below = await keptAgentd(["backup", join(file, "copy")], env);
  assert.equal(below.code, 1);
  assert.match(below.stderr, /^Cannot create the backup \S+ \(E[A-Z]+\)\. Check [^\n]*\n$/);
  await writeFile(join(folder, "home", "state.db"), "this is no database ".repeat(500));
  const damaged = await keptAgentd(["backup", join(folder, "copy")], env);
  assert.equal(damaged.code, 1);
  assert.match(damaged.stderr, /^The file is not a SQLite database\.\n$/);
  assert.deepEqual((await readdir(folder)).toSorted(), ["file", "home"]);
});

test("a backup without --secrets has none, says which are missing, and its restore keeps those of the home", async (t) => {
  const folder = await scratch(t);
  const home = join(folder, "home");
  const file = join(folder, "backup.tar.gz");
  const secrets = [
    "sk-canary-0123456789abcdef",
    "canary-route-secret-1",
    "123456789:canary-bot-token-22aa",
    "canary-variable-0123456789",
    "canary-earlier-secret",
  ];
  const [providerKey, routeSecret, botToken, variable, earlier] = secrets;
  await mkdir(home, { mode: 0o700 });
  const config = [
    `# once ${String(providerKey)}`,
    "log: { level: error }",
    `model: { providers: { local: { type: openai, api_key: ${String(providerKey)} } } }`,
    `platforms: { telegram: { token: ${String(botToken)} } }`,
  ];
  await writeFile(join(home, "config.yaml"), config.join("\n"));
  await writeFile(join(home, ".env"), `API_SERVER_KEY=${String(variable)}\n`);
  const retiring = [{ secret: earlier, until: "2100-01-01T00:00:00Z" }];
  const subscription = { description: "d", prompt: "p", events: [], secret: routeSecret, retiring };
  await writeFile(join(home, "webhook_subscriptions.json"), JSON.stringify({ mine: subscription }));
  const env = { AGENTD_HOME: home };
  const made = await keptAgentd(["backup", file], env);
  assert.equal(made.code, 0, made.stderr);
  for (const name of [
    ".env",
    "config.yaml: model.providers.local.api_key",
    "webhook_subscriptions.json: mine.secret",
    "webhook_subscriptions.json: mine.retiring",
  ])
    assert.ok(made.stderr.includes(name), made.stderr);
  const content = gunzipSync(await readFile(file)).toString("latin1");
  for (const secret of secrets) assert.ok(!content.includes(secret), secret);
  await writeFile(join(home, "later.txt"), "made after the backup");

  const refused = await keptAgentd(["restore", file], env);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /already exists\. Pass --force to replace its content/);
  const restored = await keptAgentd(["restore", file, "--force"], env);
  assert.equal(restored.code, 0, restored.stderr);
  const replaced = /^What it replaced is in (\S+)\. /m.exec(restored.stdout)?.[1] ?? "";
  assert.match(restored.stderr, /does not include these secrets: \.env, config\.yaml: /);
  assert.match(await readFile(join(home, ".env"), "utf8"), /canary-variable-0123456789/);
  assert.equal((await keptAgentd(["config", "get", "log.level"], env)).stdout, "error\n");
  assert.match(await readFile(join(home, "webhook_subscriptions.json"), "utf8"), /"description": "d"/);
  assert.deepEqual(
    (await readdir(replaced)).toSorted(),
    ["config.yaml", "later.txt", "webhook_subscriptions.json"],
    "the old content is kept",
  );
  await keptAgentd(["backup", join(folder, "second.tar.gz"), "--secrets"], env);
  const second = gunzipSync(await readFile(join(folder, "second.tar.gz"))).toString("latin1");
  assert.ok(
    second.includes("canary-variable-0123456789") && !second.includes("later.txt"),
    "replaced content is not backed up",
  );
});

test("a backup without a database, or with one on a server, says what it does not include", async (t) => {
  const folder = await scratch(t);
  const env = { AGENTD_HOME: join(folder, "home") };
  await keptAgentd(["config", "set", "log.level", "info"], env);
  const bare = await keptAgentd(["backup", join(folder, "bare"), "--json"], env);
  const facts = { file: join(folder, "bare"), files: 1, database: "absent", secrets: false, omitted: [] };
  assert.deepEqual(JSON.parse(bare.stdout), facts);
  const server = { ...env, AGENTD_DATABASE_URL: "postgres://me@127.0.0.1:1/nowhere" };
  const remote = await keptAgentd(["backup", join(folder, "remote")], server);
  assert.equal(remote.code, 0, remote.stderr);
  const elsewhere =
    /^The backup does not include the database, which is on a PostgreSQL server\. Copy it with `pg_dump`/;
  assert.match(remote.stderr, elsewhere);
  const back = await keptAgentd(["restore", join(folder, "remote")], {
    ...server,
    AGENTD_HOME: join(folder, "other"),
  });
  assert.match(back.stderr, /Restore it with `pg_restore`/);
  await mkdir(join(folder, "home", "workspace"));
  await writeFile(join(folder, "home", "workspace", "a.txt"), "mine");
  await keptAgentd(["backup", join(folder, "whole"), "--workspace"], env);
  await keptAgentd(["restore", join(folder, "whole")], { AGENTD_HOME: join(folder, "third") });
  assert.equal(await readFile(join(folder, "third", "workspace", "a.txt"), "utf8"), "mine");
  await keptAgentd(["restore", join(folder, "bare"), "--force"], env);
  assert.equal(
    await readFile(join(folder, "home", "workspace", "a.txt"), "utf8"),
    "mine",
    "the workspace stays",
  );
});

test("a damaged or hostile archive is refused before anything changes", async (t) => {
  const folder = await scratch(t);
  const env = { AGENTD_HOME: join(folder, "home") };
  await keptAgentd(["config", "set", "log.level", "warn"], env);
  const file = join(folder, "good.tar.gz");
  await keptAgentd(["backup", file], env);
  const good = await readFile(file);
  const tar = gunzipSync(good);
  const swap = (from: string, to: string) =>
    gzipSync(Buffer.from(tar.toString("latin1").replace(from, to), "latin1"));
  const hostile = spawnSync("python3", ["-c", HOSTILE, folder], { encoding: "utf8" });
  const archives: [string, Buffer, RegExp][] = [
    ["cut", good.subarray(0, good.length / 2), /damaged or not compressed|ends too early/],
    ["text", Buffer.from("not an archive"), /damaged or not compressed/],
    ["empty", Buffer.alloc(0), /damaged or not compressed|ends too early/],
    ["no tar", gzipSync("x".repeat(2_000)), /not an intact tar archive/],
    ["changed", swap("level: warn", "level: info"), /config\.yaml differs from the manifest/],
    ["another format", swap('"format": 1', '"format": 2'), /another version of agentd/],
    ...(hostile.status === 0
      ? (["outside", "link"] as const).map(
          (name) =>
            [
              name,
              Buffer.from(hostile.stdout.split("\n")[name === "link" ? 1 : 0] ?? "", "base64"),
              /outside of the home|below a link/,
            ] as [string, Buffer, RegExp],
        )
      : []),
  ];
  for (const [name, bytes, wanted] of archives) {
    const bad = join(folder, "bad");
    await writeFile(bad, bytes);
    for (const words of [["--dry-run"], ["--force"]]) {
      const { code, stdout, stderr } = await keptAgentd(["restore", bad, ...words], env);
      assert.deepEqual([code, stdout], [1, ""], name);
      assert.match(stderr, /is not an intact backup: [^\n]+ Nothing was changed\.\n$/, name);
      assert.match(stderr, wanted, name);
    }
  }
  const fresh = join(folder, "fresh");
  assert.equal((await keptAgentd(["restore", join(folder, "bad")], { AGENTD_HOME: fresh })).code, 1);
  assert.equal((await keptAgentd(["config", "get", "log.level"], env)).stdout, "warn\n");
  const left = (await readdir(folder)).toSorted();
  assert.deepEqual(left, ["bad", "good.tar.gz", "home"], "no new home");
  assert.deepEqual((await readdir(env.AGENTD_HOME)).toSorted(), [".lock", "config.yaml"]);
  const dry = await keptAgentd(["restore", file, "--dry-run"], { AGENTD_HOME: fresh });
  assert.match(dry.stdout, /is intact: 1 files?, without a database/);
  await assert.rejects(stat(fresh));
});

/** Prints two archives: an entry above the home, and an entry below a link. */
const HOSTILE = `
import base64, io, sys, tarfile
def archive(*entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, target in entries:
            info = tarfile.TarInfo(name)
            if target: info.type, info.linkname = tarfile.SYMTYPE, target
            else: info.size = 4
            tar.addfile(info, io.BytesIO(b"evil"))
    return base64.b64encode(out.getvalue()).decode()
print(archive(("home/../../evil", None)))
print(archive(("home/skills", sys.argv[1]), ("home/skills/evil", None)))
`;

test("a restore that is killed while it changes the home leaves the old one or the new one", async (t) => {
  const folder = await scratch(t);
  const home = join(folder, "home");
  const env = { AGENTD_HOME: home };
  const file = join(folder, "backup.tar.gz");
  await keptAgentd(["config", "set", "log.level", "info"], env);
  await mkdir(join(home, "scripts"));
  await writeFile(join(home, "scripts", "state"), "info");
  await keptAgentd(["backup", file], env);
  await keptAgentd(["config", "set", "log.level", "error"], env);
  await writeFile(join(home, "scripts", "state"), "error");
  const [program, ...words] = agentdCommand("restore", file, "--force");
  const child = spawn(program, words, { env: programEnvironment(env), stdio: "ignore" });
  const closed = once(child, "close");
  const watcher = watch(home, (_event, name) => {
    if (name === ".restore.json") child.kill("SIGKILL");
  });
  await closed;
  watcher.close();
  const level = (await keptAgentd(["config", "get", "log.level"], env)).stdout.trim();
  assert.equal(await readFile(join(home, "scripts", "state"), "utf8"), level);
  assert.ok(["info", "error"].includes(level), level);
  await assert.rejects(stat(join(home, ".restore.json")));
});
