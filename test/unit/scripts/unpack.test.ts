import assert from "node:assert/strict";
import {
  chmod,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { cacheFolders, unpackProgram, type PackedProgram } from "../../../scripts/binary/unpack.ts";

const contents: Readonly<Record<string, string>> = {
  "main.mjs": "main",
  "chunks/a.mjs": "a",
  "skills/x/S.md": "",
};

function packed(version = "1.0.0"): PackedProgram {
  return {
    version,
    digest: "0123456789abcdef0123456789abcdef",
    files: Object.keys(contents),
    read: (path) => Buffer.from(contents[path] ?? assert.fail(path)),
  };
}

async function temporary(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), "agentd-unpack-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

async function assertWhole(folder: string): Promise<void> {
  for (const [path, text] of Object.entries(contents))
    assert.equal(await readFile(join(folder, path), "utf8"), text);
  const names = await readdir(folder, { recursive: true });
  assert.deepEqual(
    names.filter((name) => name.endsWith(".tmp")),
    [],
  );
}

test("the program is unpacked into a folder that only the user can open", async () => {
  await using cache = await temporary();
  const folder = unpackProgram(packed(), [cache.path]);
  assert.equal(folder, join(cache.path, "agentd/1.0.0-0123456789abcdef"));
  await assertWhole(folder);
  for (const path of [dirname(folder), folder, join(folder, "chunks"), join(folder, "skills/x")])
    assert.equal((await lstat(path)).mode & 0o777, 0o700, path);
  for (const path of Object.keys(contents))
    assert.equal((await lstat(join(folder, path))).mode & 0o777, 0o600, path);
});

test("a changed, truncated, missing or linked file is replaced at the next start", async () => {
  await using cache = await temporary();
  const folder = unpackProgram(packed(), [cache.path]);
  const main = join(folder, "main.mjs");
  const other = join(cache.path, "other");
  await writeFile(other, "main"); // the same: it could change later
  const damages: readonly (() => Promise<unknown>)[] = [
    () => writeFile(main, "evil"),
    () => writeFile(main, ""),
    () => rm(main),
    () => rm(join(folder, "skills"), { recursive: true }),
    async () => {
      await rm(main);
      await symlink(other, main);
    },
  ];
  for (const damage of damages) {
    await damage();
    assert.equal(unpackProgram(packed(), [cache.path]), folder);
    await assertWhole(folder);
    assert.ok((await lstat(main)).isFile());
  }
  assert.equal(await readFile(other, "utf8"), "main", "what the link led to is as it was");
});

test("a file that is as it should be is not written again", async () => {
  await using cache = await temporary();
  const main = join(unpackProgram(packed(), [cache.path]), "main.mjs");
  const { ino } = await lstat(main);
  unpackProgram(packed(), [cache.path]);
  assert.equal((await lstat(main)).ino, ino);
});

test("a folder that others can write, a link and a file are refused, and the next candidate is taken", async () => {
  await using cache = await temporary();
  const [open, linked, file, good] = ["open", "linked", "file", "good"].map((name) =>
    join(cache.path, name),
  ) as [string, string, string, string];
  await mkdir(join(open, "agentd"), { recursive: true });
  await chmod(join(open, "agentd"), 0o777);
  await mkdir(linked);
  await mkdir(join(cache.path, "target"));
  await symlink(join(cache.path, "target"), join(linked, "agentd"));
  await writeFile(file, "");
  assert.throws(
    () => unpackProgram(packed(), [open, linked, file]),
    /open\/agentd can be written by other users; .*linked\/agentd is not a folder; .*file.*Set XDG_CACHE_HOME or AGENTD_HOME/,
  );
  assert.equal(dirname(dirname(unpackProgram(packed(), [open, linked, file, good]))), good);
  assert.deepEqual(await readdir(join(cache.path, "target")), []);
});

test("a folder whose parent others can write is refused, unless only owners may rename there", async () => {
  await using cache = await temporary();
  const shared = join(cache.path, "shared");
  await mkdir(shared);
  await chmod(shared, 0o777);
  assert.throws(
    () => unpackProgram(packed(), [join(shared, "mine")]),
    /shared can be written by other users/,
  );
  await chmod(shared, 0o1777);
  await assertWhole(unpackProgram(packed(), [join(shared, "mine")]));
});

test(
  "a folder of another user is refused",
  { skip: process.getuid?.() !== 0 && "only root can make one" },
  async () => {
    await using cache = await temporary();
    const { chown } = await import("node:fs/promises");
    await mkdir(join(cache.path, "agentd"), { mode: 0o700 });
    await chown(join(cache.path, "agentd"), 12_345, 12_345);
    assert.throws(() => unpackProgram(packed(), [cache.path]), /agentd belongs to another user/);
  },
);

test("the three other versions that were started last stay", async () => {
  await using cache = await temporary();
  const folders = ["1.0.1", "1.0.2", "1.0.3"].map((version) => unpackProgram(packed(version), [cache.path]));
  for (const [at, folder] of folders.entries()) await utimes(folder, 1000 + at, 1000 + at);
  unpackProgram(packed("1.0.1"), [cache.path]); // started again, so 1.0.2 is the oldest now
  unpackProgram(packed("1.0.4"), [cache.path]);
  unpackProgram(packed("1.0.5"), [cache.path]);
  assert.deepEqual((await readdir(join(cache.path, "agentd"))).map((name) => name.split("-")[0]).toSorted(), [
    "1.0.1",
    "1.0.3",
    "1.0.4",
    "1.0.5",
  ]);
});

test("the cache is looked for in XDG_CACHE_HOME, HOME, AGENTD_HOME and the user's own home, in this order", () => {
  const found = cacheFolders({ XDG_CACHE_HOME: "/x", HOME: "/h", AGENTD_HOME: "/a" });
  assert.deepEqual(found.slice(0, 3), ["/x", "/h/.cache", "/a/cache"]);
  const relative = cacheFolders({ XDG_CACHE_HOME: "x", AGENTD_HOME: "a", HOME: "" });
  assert.ok(relative.every(isAbsolute), "relative paths would depend on the working directory");
  assert.ok(relative.length <= 1);
});
