import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { test } from "node:test";
import { SpawnTrees, type SpawnTree } from "../../../src/agent/subagent/spawn-tree.ts";

interface Place {
  readonly folder: string;
  readonly root: string;
  readonly trees: SpawnTrees;
}

function place(t: { after(clean: () => void): void }): Place {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "agentd-trees-")));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const root = join(folder, "spawn-trees");
  return { folder, root, trees: new SpawnTrees(root) };
}

function tree(more: Partial<SpawnTree> = {}): SpawnTree {
  return {
    session_id: "ses_1",
    started_at: 1_700_000_000,
    finished_at: 1_700_000_010,
    label: "work",
    subagents: [{ id: "a", goal: "look" }],
    ...more,
  };
}

test("a saved tree is listed and loaded unchanged", async (t) => {
  const { trees } = place(t);
  assert.deepEqual(await trees.list({}), []);
  const path = await trees.save(tree());
  assert.deepEqual(await trees.load(path), tree());
  const { subagents, ...about } = tree();
  assert.deepEqual(await trees.list({}), [{ ...about, path, count: subagents.length }]);
});

test("trees saved in the same second all stay, and the last one is listed first", async (t) => {
  const { root } = place(t);
  // Two objects: two processes share no lock.
  const savers = [new SpawnTrees(root), new SpawnTrees(root)];
  const labels = Array.from({ length: 12 }, (_, index) => `tree ${index}`);
  const paths = await Promise.all(labels.map((label, n) => savers[n % 2]!.save(tree({ label }))));
  assert.equal(new Set(paths).size, labels.length);
  const listed = await savers[0]!.list({ sessionId: "ses_1" });
  assert.deepEqual(listed.map(({ label }) => label).toSorted(), labels.toSorted());
  const last = await savers[0]!.save(tree({ label: "last" }));
  assert.equal((await savers[0]!.list({}))[0]?.path, last);
});

test("the list is newest first over all sessions, and as long as requested", async (t) => {
  const { trees } = place(t);
  for (const [at, session_id] of [
    [30, "b"],
    [10, "a"],
    [20, "c"],
  ] as const) {
    await trees.save(tree({ session_id, finished_at: at }));
  }
  const listed = await trees.list({ limit: 2 });
  assert.deepEqual(
    listed.map(({ session_id }) => session_id),
    ["b", "c"],
  );
  assert.equal((await trees.list({ sessionId: "a" })).length, 1);
  assert.deepEqual(await trees.list({ sessionId: "nobody" }), []);
});

test("every session name gets its own folder inside the root", async (t) => {
  const { root, trees } = place(t);
  const names = ["..", ".", "../..", "a/b", "a b", "ü", "x".repeat(300), "-", "\u0000", "CON", "a\nb", " "];
  for (const session_id of names) {
    const path = await trees.save(tree({ session_id }));
    assert.equal(dirname(dirname(path)), root, JSON.stringify(session_id));
    assert.equal((await trees.list({ sessionId: session_id })).length, 1);
    assert.equal((await trees.load(path)).session_id, session_id);
  }
  assert.equal((await trees.list({})).length, names.length);
});

test("a path out of the folder is refused, whether a file exists there or not", async (t) => {
  const { folder, root, trees } = place(t);
  await trees.save(tree());
  const outside = join(folder, "outside.json");
  writeFileSync(outside, JSON.stringify(tree({ label: "secret" })));
  mkdirSync(`${root}-twin`);
  writeFileSync(join(`${root}-twin`, "x.json"), JSON.stringify(tree()));
  const paths = [
    outside,
    "../outside.json",
    "ses_1/../../outside.json",
    join(root, "..", "outside.json"),
    join(`${root}-twin`, "x.json"),
    "../nothing.json",
    "/etc/passwd",
    "",
    ".",
    "..",
    root,
  ];
  for (const path of paths) {
    await assert.rejects(trees.load(path), { code: "invalid_request" }, JSON.stringify(path));
  }
});

test("neither load nor list follows a link that leads out", async (t) => {
  const { folder, root, trees } = place(t);
  const path = await trees.save(tree());
  const outside = join(folder, "outside");
  mkdirSync(outside);
  writeFileSync(join(outside, "20990101T000000.json"), JSON.stringify(tree({ label: "secret" })));
  symlinkSync(outside, join(root, "linked"));
  symlinkSync(join(outside, "20990101T000000.json"), join(dirname(path), "20990101T000000.json"));
  await assert.rejects(trees.load("linked/20990101T000000.json"), { code: "invalid_request" });
  await assert.rejects(trees.load("ses_1/20990101T000000.json"), { code: "invalid_request" });
  assert.deepEqual(
    (await trees.list({})).map(({ label }) => label),
    ["work"],
  );
});

test("a path with NUL, a very long one and a folder are not spawn trees", async (t) => {
  const { trees } = place(t);
  await trees.save(tree());
  for (const path of ["ses_1/\u0000.json", `ses_1/${"x".repeat(5000)}.json`, "ses_1", "ses_1/no.json"]) {
    await assert.rejects(trees.load(path), { code: "not_found" }, path.slice(0, 20));
  }
});

test("invalid files are omitted from the list, load as not found, and do not use up its limit", async (t) => {
  const { root, trees } = place(t);
  const path = await trees.save(tree());
  const broken = ["", "{", "null", "[]", '"x"', "{}", '{"session_id":"s","subagents":[]}'].concat(
    JSON.stringify({ ...tree(), finished_at: "now" }),
    JSON.stringify({ ...tree(), label: 7 }),
    JSON.stringify({ ...tree(), subagents: {} }),
  );
  broken.forEach((text, n) => writeFileSync(join(root, "ses_1", `2099010${n}T000000.json`), text));
  mkdirSync(join(root, "ses_1", "20990201T000000.json"));
  writeFileSync(join(root, "stray.json"), JSON.stringify(tree()));
  assert.deepEqual(
    (await trees.list({ limit: 1 })).map((entry) => entry.path),
    [path],
  );
  for (const [n] of broken.entries()) {
    await assert.rejects(trees.load(`ses_1/2099010${n}T000000.json`), { code: "not_found" });
  }
});

test("a tree that is empty, too large or without a time is refused, and leaves nothing behind", async (t) => {
  const { trees } = place(t);
  const refused: Partial<SpawnTree>[] = [
    { subagents: [] },
    { subagents: Array.from({ length: 1001 }, () => ({})) },
    { subagents: [{ text: "x".repeat(5_242_881) }] },
    { finished_at: Number.NaN },
    { finished_at: Number.POSITIVE_INFINITY },
    { finished_at: 1e15 },
    { finished_at: -1 },
  ];
  for (const more of refused) {
    await assert.rejects(trees.save(tree(more)), { code: "invalid_request" });
  }
  assert.deepEqual(await trees.list({}), []);
});

test("file names are sortable times", async (t) => {
  const { trees } = place(t);
  assert.equal(basename(await trees.save(tree({ finished_at: 0 }))), "19700101T000000.json");
  assert.equal(basename(await trees.save(tree({ finished_at: 0.9 }))), "19700101T000000-2.json");
});
