import assert from "node:assert/strict";
import { mkdir, readdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { loadConfig } from "../../../src/config/config.ts";
import { replaceEntries, undoRestore, type Replacement } from "../../../src/config/restore.ts";
import { createHome } from "./home-folder.ts";

const PLAN: Replacement = {
  staged: ".restore-abc",
  replaced: "replaced-1",
  outgoing: ["config.yaml", "skills", "only-old", "dangling"],
  incoming: ["config.yaml", "skills", "only-new"],
};

/** A home with old entries, and new ones that are staged. */
async function createStaged() {
  const made = await createHome({
    "config.yaml": "log: { level: error }\n",
    "only-old": "old",
    kept: "kept",
  });
  const { home } = made;
  await mkdir(join(home, "skills"));
  await writeFile(join(home, "skills", "a"), "old");
  await symlink("nowhere", join(home, "dangling"));
  await mkdir(join(home, PLAN.staged, "skills"), { recursive: true });
  await writeFile(join(home, PLAN.staged, "config.yaml"), "log: { level: debug }\n");
  await writeFile(join(home, PLAN.staged, "skills", "a"), "new");
  await writeFile(join(home, PLAN.staged, "only-new"), "new");
  return made;
}

async function treeOf(home: string): Promise<readonly string[]> {
  const names = (await readdir(home, { recursive: true })).filter((name) => name !== ".lock");
  const texts = names.map(
    async (name) => `${name}: ${await readFile(join(home, name), "utf8").catch(() => "")}`,
  );
  return (await Promise.all(texts)).toSorted();
}

test("a restore that dies after any of its steps leaves the old home, as soon as anything reads it", async () => {
  const steps = [
    ...PLAN.outgoing.map((name) => [name, join(PLAN.replaced, name)] as const),
    ...PLAN.incoming.map((name) => [join(PLAN.staged, name), name] as const),
  ];
  for (let done = 0; done <= steps.length; done += 1) {
    await using made = await createStaged();
    const { home } = made;
    const before = (await treeOf(home)).filter((name) => !name.startsWith(PLAN.staged));
    await mkdir(join(home, PLAN.replaced));
    await writeFile(join(home, ".restore.json"), JSON.stringify(PLAN));
    for (const [from, to] of steps.slice(0, done)) await rename(join(home, from), join(home, to));
    const { config } = await loadConfig({ home, env: {} });
    assert.equal(config.log.level, "error");
    assert.deepEqual(await treeOf(home), before, `after ${done} steps`);
  }
});

test("an undo that dies after any of its steps is completed by the next one", async () => {
  const back = [
    ...PLAN.incoming.map((name) => [name, join(PLAN.staged, name)] as const),
    ...PLAN.outgoing.map((name) => [join(PLAN.replaced, name), name] as const),
  ];
  for (let done = 0; done <= back.length; done += 1) {
    await using made = await createStaged();
    const { home } = made;
    const before = (await treeOf(home)).filter((name) => !name.startsWith(PLAN.staged));
    await mkdir(join(home, PLAN.replaced));
    await writeFile(join(home, ".restore.json"), JSON.stringify(PLAN));
    for (const name of PLAN.outgoing) await rename(join(home, name), join(home, PLAN.replaced, name));
    for (const name of PLAN.incoming) await rename(join(home, PLAN.staged, name), join(home, name));
    for (const [from, to] of back.slice(0, done)) await rename(join(home, from), join(home, to));
    await undoRestore(home);
    assert.deepEqual(await treeOf(home), before, `after ${done} steps`);
  }
});

test("a restore that ends keeps the old entries in their folder and leaves the rest alone", async () => {
  await using made = await createStaged();
  const { home } = made;
  await replaceEntries(home, PLAN);
  await rm(join(home, PLAN.staged), { recursive: true });
  assert.deepEqual(await treeOf(home), [
    "config.yaml: log: { level: debug }\n",
    "kept: kept",
    "only-new: new",
    "replaced-1/config.yaml: log: { level: error }\n",
    "replaced-1/dangling: ",
    "replaced-1/only-old: old",
    "replaced-1/skills/a: old",
    "replaced-1/skills: ",
    "replaced-1: ",
    "skills/a: new",
    "skills: ",
  ]);
});

test("a step that fails puts the old home back", async () => {
  await using made = await createStaged();
  const { home } = made;
  const before = (await treeOf(home)).filter((name) => !name.startsWith(PLAN.staged));
  await assert.rejects(replaceEntries(home, { ...PLAN, incoming: [...PLAN.incoming, "missing"] }), /ENOENT/);
  assert.deepEqual(await treeOf(home), before);
});
