import assert from "node:assert/strict";
import { mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Json } from "../../harness/rpc.ts";
import { openSession, rpcScenario, takeTurn, type RpcSetting } from "./scenario.ts";

const folderOf = ({ service }: RpcSetting) => join(service.home, "agentd", "spawn-trees");

rpcScenario(
  ["spawn_tree.save", "spawn_tree.list", "spawn_tree.load"],
  "a saved tree is listed, and loaded unchanged",
  async (host) => {
    const session_id = await openSession(host);
    await takeTurn(host, session_id, "hello");
    const subagents = [{ goal: "dig", "any key": [1, null, { deep: "ü\u2028" }] }, { goal: "fill" }];
    const about = { session_id, started_at: 1_700_000_000, finished_at: 1_700_000_100.5, label: "L" };
    const saved = await host.result("spawn_tree.save", { ...about, subagents });
    assert.equal(saved.session_id, session_id);
    const { entries } = await host.result("spawn_tree.list", { session_id });
    assert.deepEqual(entries, [{ ...about, path: saved.path, count: 2 }]);
    assert.deepEqual(await host.result("spawn_tree.load", { path: saved.path }), { ...about, subagents });
  },
);

rpcScenario("spawn_tree.list", "newest first, of one session or of all, up to the limit", async (host) => {
  const session_id = await openSession(host);
  await takeTurn(host, session_id, "hello");
  const save = (more: Json) => host.result("spawn_tree.save", { subagents: [{}], ...more });
  for (const finished_at of [10, 30, 20, 30]) await save({ finished_at });
  await save({ finished_at: 40, session_id });
  const ends = async (params: Json) =>
    (await host.result("spawn_tree.list", params)).entries.map((each: Json) => each.finished_at);
  assert.deepEqual(await ends({}), [30, 30, 20, 10]);
  assert.deepEqual(await ends({ limit: 2 }), [30, 30]);
  assert.deepEqual(await ends({ cross_session: true }), [40, 30, 30, 20, 10]);
  assert.deepEqual(await ends({ session_id: "unknown" }), []);
  for (const bad of [{ limit: 0 }, { limit: 201 }, { limit: "5" }, { cross_session: 1 }]) {
    await host.error("spawn_tree.list", bad, -32602);
  }
});

rpcScenario(
  "spawn_tree.save",
  "trees of other owners are invisible, whatever their names",
  async (host, { connect, owner }) => {
    await host.result("spawn_tree.save", { subagents: [{ goal: "mine" }], session_id: "b:c" });
    const { path } = await host.result("spawn_tree.save", { subagents: [{ goal: "mine" }] });
    for (const name of [`${owner}:b`, owner.slice(0, -1), `${owner}%3A`, ":"]) {
      const stranger = await connect({ owner: name });
      const { entries } = await stranger.result("spawn_tree.list", { cross_session: true });
      assert.deepEqual(entries, []);
      for (const session_id of ["c", "b:c", "default", `${owner}:default`]) {
        assert.deepEqual((await stranger.result("spawn_tree.list", { session_id })).entries, []);
      }
      await stranger.error("spawn_tree.load", { path }, 4016);
    }
  },
);

rpcScenario("spawn_tree.save", "session names cannot escape the folder", async (host) => {
  for (const session_id of ["../../escape", "/etc/passwd", "a/b", "..", "CON", "ü".repeat(256), "\0", ""]) {
    const { path } = await host.result("spawn_tree.save", { subagents: [{ n: 1 }], session_id });
    assert.match(path, /\/spawn-trees\/[A-Za-z0-9_-]+\/[\dT]+(-\d+)?\.json$/);
    assert.deepEqual((await host.result("spawn_tree.load", { path })).session_id, session_id);
  }
});

rpcScenario("spawn_tree.save 4000", "an empty tree is refused", async (host) => {
  const { data } = await host.error("spawn_tree.save", { subagents: [] }, 4000);
  assert.equal(data.reason, "missing_param");
  for (const bad of [
    {},
    { subagents: {} },
    { subagents: ["a"] },
    { subagents: Array.from({ length: 1001 }, () => ({})) },
    { subagents: [{ text: "x".repeat(6_000_000) }] },
    { subagents: [{}], finished_at: 1e20 },
    { subagents: [{}], finished_at: -1 },
    { subagents: [{}], started_at: "now" },
    { subagents: [{}], label: "l".repeat(257) },
  ]) {
    const error = await host.error("spawn_tree.save", bad, -32602);
    assert.ok(error.data.issues.length > 0);
  }
});

rpcScenario(
  "spawn_tree.save 5000",
  { title: "the folder cannot be created", config: {} },
  async (host, setting) => {
    await mkdir(join(setting.service.home, "agentd"), { recursive: true });
    await rm(folderOf(setting), { recursive: true, force: true });
    await writeFile(folderOf(setting), "a file is in the way");
    const { message } = await host.error("spawn_tree.save", { subagents: [{}] }, 5000);
    assert.ok(!message.includes(setting.service.home), message);
    assert.deepEqual((await host.result("spawn_tree.list")).entries, []);
  },
);

rpcScenario("spawn_tree.load 4000", "the path is empty", async (host) => {
  for (const path of ["", " ", "\n"]) await host.error("spawn_tree.load", { path }, 4000);
  for (const bad of [{}, { path: 1 }, { path: "x".repeat(4097) }])
    await host.error("spawn_tree.load", bad, -32602);
});

rpcScenario("spawn_tree.load 4016", "the path has no tree", async (host, setting) => {
  const { path } = await host.result("spawn_tree.save", { subagents: [{}] });
  const folder = join(path, "..");
  await writeFile(join(folder, "broken.json"), "{");
  await writeFile(join(folder, "other.json"), "[1]");
  for (const name of ["none.json", "broken.json", "other.json", "", "a\0b.json"]) {
    await host.error("spawn_tree.load", { path: join(folder, name) }, 4016);
  }
  assert.equal((await host.result("spawn_tree.list")).entries.length, 1);
  assert.ok(folder.startsWith(folderOf(setting)));
});

rpcScenario("spawn_tree.load 4030", "the path is outside the folder", async (host, setting) => {
  const { path } = await host.result("spawn_tree.save", { subagents: [{}] });
  const folder = join(path, "..");
  const secret = join(setting.service.home, `${setting.owner}.json`);
  await writeFile(secret, JSON.stringify({ session_id: "x", finished_at: 1, subagents: [{}] }));
  await symlink(secret, join(folder, "link.json"));
  for (const out of [
    secret,
    "/etc/passwd",
    "../config.yaml",
    `${folder}/../../../${setting.owner}.json`,
    join(folder, "link.json"),
    "..",
    ".",
    folderOf(setting),
  ]) {
    const { data } = await host.error("spawn_tree.load", { path: out }, 4030);
    assert.equal(data.reason, "path_outside_root", out);
  }
});
