/** File tools work on the file that was approved, whatever its name leads to a moment later. */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { createPatch } from "../../../../src/agent/tools/files/patch.ts";
import { createReadFile } from "../../../../src/agent/tools/files/read-file.ts";
import { createSearchFiles } from "../../../../src/agent/tools/files/search-files.ts";
import { createWriteFile } from "../../../../src/agent/tools/files/write-file.ts";
import { stageText } from "../../../../src/agent/tools/files/edited-file.ts";
import { call, workspace } from "./call.ts";

interface Trap {
  readonly cwd: string;
  readonly secret: string;
}

/** A workspace with `dir/file`, and a folder outside of it with a file of the same name. */
function trap(t: { after(clean: () => void): void }): Trap {
  const root = workspace(t);
  const cwd = join(root, "inside");
  for (const folder of [join(cwd, "dir"), join(root, "outside")]) mkdirSync(folder, { recursive: true });
  writeFileSync(join(cwd, "dir/file"), "mine\n");
  writeFileSync(join(root, "outside/file"), "secret\n");
  return { cwd, secret: join(root, "outside/file") };
}

/** Puts a link to the folder outside in the place of `dir`. */
function swap({ cwd }: Trap): void {
  renameSync(join(cwd, "dir"), join(cwd, "moved"));
  symlinkSync(join(cwd, "../outside"), join(cwd, "dir"));
}

test("a file that becomes a link after its approval is not read", async (t) => {
  const it = trap(t);
  const path = join(it.cwd, "dir/file");
  rmSync(path);
  symlinkSync(it.secret, path);
  const context = { approvedPaths: [path] };
  await assert.rejects(
    call(createReadFile(), { path: "dir/file" }, { cwd: it.cwd, context }),
    /has changed since it was checked/,
  );
});

test("a folder that becomes a link after its approval is not searched", async (t) => {
  const it = trap(t);
  swap(it);
  const context = { approvedPaths: [join(it.cwd, "dir")] };
  const input = { pattern: "secret", path: "dir" };
  const found = await call(createSearchFiles(), input, { cwd: it.cwd, context }).catch(String);
  assert.doesNotMatch(found, /file:1/);
});

for (const [name, tool, input] of [
  ["write_file", createWriteFile(), { path: "dir/file", content: "changed\n" }],
  ["patch", createPatch(), { path: "dir/file", old: "secret", new: "changed" }],
] as const) {
  test(`${name} does not follow a folder that becomes a link after its approval`, async (t) => {
    const it = trap(t);
    swap(it);
    const context = { approvedPaths: [join(it.cwd, "dir/file")] };
    await assert.rejects(call(tool, input, { cwd: it.cwd, context }), /has changed since it was checked/);
    assert.equal(readFileSync(it.secret, "utf8"), "secret\n");
  });
}

test("content that is written beside its file stays in its folder when the folder is replaced", async (t) => {
  const it = trap(t);
  const path = join(it.cwd, "dir/file");
  const signal = new AbortController().signal;
  const staged = await stageText(path, "changed\n", { approved: [path], signal });
  swap(it);
  await staged.commit();
  assert.equal(readFileSync(it.secret, "utf8"), "secret\n");
  assert.equal(readFileSync(join(it.cwd, "moved/file"), "utf8"), "changed\n");
});

test("approved files are read and written, also below a workspace that is a link", async (t) => {
  const it = trap(t);
  const link = `${it.cwd}-link`;
  symlinkSync(it.cwd, link);
  const path = join(link, "dir/file");
  const context = { approvedPaths: [path] };
  assert.match(await call(createReadFile(), { path: "dir/file" }, { cwd: link, context }), /mine/);
  await call(createWriteFile(), { path: "dir/file", content: "new\n" }, { cwd: link, context });
  assert.equal(readFileSync(path, "utf8"), "new\n");
});
