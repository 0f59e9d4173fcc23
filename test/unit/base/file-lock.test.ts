import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { FileLockError, withExclusiveLock } from "../../../src/base/system/file-lock.ts";

const child = join(import.meta.dirname, "file-lock-child.ts");
const runtime = "Deno" in globalThis ? ["run", "-A", "--no-check", child] : [child];

interface Context {
  after(clean: () => Promise<void>): void;
}

async function folderOf(t: Context): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "agentd-lock-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

function start(...args: readonly string[]): ChildProcess {
  return spawn(process.execPath, [...runtime, ...args], { stdio: ["ignore", "pipe", "inherit"] });
}

async function holder(path: string): Promise<ChildProcess> {
  const started = start(path, "", "0");
  assert.ok(started.stdout);
  const [said] = (await once(started.stdout, "data")) as [Buffer];
  assert.equal(said.toString(), "held\n");
  return started;
}

async function kill(started: ChildProcess): Promise<void> {
  const closed = once(started, "close");
  process.kill(started.pid ?? 0, "SIGKILL");
  await closed;
}

test("only one of several processes works under a lock at a time", async (t) => {
  const folder = await folderOf(t);
  const [path, counter] = [join(folder, ".lock"), join(folder, "counter")];
  await writeFile(counter, "0");
  const children = [1, 2, 3].map(() => start(path, counter, "40"));
  const codes = await Promise.all(children.map(async (each) => (await once(each, "close"))[0] as unknown));
  assert.deepEqual(codes, [0, 0, 0]);
  assert.equal(await readFile(counter, "utf8"), "120");
});

test("a lock that another process holds is waited for, and then reported as held", async (t) => {
  const path = join(await folderOf(t), ".lock");
  const other = await holder(path);
  t.after(() => kill(other));
  await assert.rejects(
    withExclusiveLock({ path, waitMs: 50 }, async () => assert.fail("it ran")),
    (error) => error instanceof FileLockError && error.isHeld,
  );
});

test("a lock is free as soon as its process is killed", async (t) => {
  const path = join(await folderOf(t), ".lock");
  const other = await holder(path);
  const waiting = withExclusiveLock({ path, waitMs: 60_000 }, async () => "mine");
  await kill(other);
  assert.equal(await waiting, "mine");
  assert.equal(await withExclusiveLock({ path, waitMs: 0 }, async () => "again"), "again");
});

test("a lock file that an earlier process left does not lock", async (t) => {
  const folder = await folderOf(t);
  const path = join(folder, ".lock");
  await writeFile(path, "");
  assert.equal(await withExclusiveLock({ path, waitMs: 0 }, async () => "mine"), "mine");
  assert.deepEqual(await readdir(folder), [".lock"]);
  assert.equal((await readFile(path)).length, 0);
});

test("callers in one process take turns, also after one that failed", async (t) => {
  const path = join(await folderOf(t), ".lock");
  const order: string[] = [];
  const work = (name: string, fails: boolean) =>
    withExclusiveLock({ path, waitMs: 60_000 }, async () => {
      order.push(`${name} begins`);
      await new Promise((resolve) => setImmediate(resolve));
      order.push(`${name} ends`);
      if (fails) throw new Error("failed");
    });
  const results = await Promise.allSettled([work("a", true), work("b", false), work("c", false)]);
  assert.deepEqual(
    results.map(({ status }) => status),
    ["rejected", "fulfilled", "fulfilled"],
  );
  const begun = order.filter((_, index) => index % 2 === 0);
  assert.deepEqual(
    order,
    begun.flatMap((each) => [each, each.replace("begins", "ends")]),
  );
});

test("a lock that cannot be used says why", async (t) => {
  const folder = await folderOf(t);
  await mkdir(join(folder, "folder"));
  await writeFile(join(folder, "text"), "something else that somebody wrote here\n".repeat(50));
  for (const name of ["folder", "text", "nowhere/.lock"]) {
    await assert.rejects(
      withExclusiveLock({ path: join(folder, name), waitMs: 0 }, async () => assert.fail("it ran")),
      (error) => error instanceof FileLockError && !error.isHeld && error.message.length > 5,
      name,
    );
  }
});
