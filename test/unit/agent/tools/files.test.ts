import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { ServiceError } from "../../../../src/base/errors.ts";
import { ToolError } from "../../../../src/agent/tool/tool.ts";
import { Skills } from "../../../../src/agent/skills/skills.ts";
import { createTools } from "../../../../src/agent/tools/catalog.ts";
import { createPatch } from "../../../../src/agent/tools/files/patch.ts";
import { realPath } from "../../../../src/agent/tools/files/paths.ts";
import { createReadFile } from "../../../../src/agent/tools/files/read-file.ts";
import { createWriteFile } from "../../../../src/agent/tools/files/write-file.ts";
import { call, inspect, workspace, watchMemory } from "./call.ts";

const readFile = createReadFile();
const writeFile = createWriteFile();
const patch = createPatch();
const options = { timeoutMs: 1_000, maxOutputBytes: 1_000, envPassthrough: [] };

const manyFiles = `--- a/one
+++ b/one
@@ -1,2 +1,2 @@
 keep
-old
+new
--- /dev/null
+++ b/sub/made
@@ -0,0 +1 @@
+made
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-gone
`;

const vision = { maxBytes: 1_024 };
const skills = new Skills({ homeFolder: "/nowhere", folders: [], disabled: [] });
const web = { timeoutMs: 1_000, maxBytes: 1_024, allowedPrivateHosts: [] };

function rejects(run: Promise<string>, message: RegExp): Promise<void> {
  return assert.rejects(run, (error) => error instanceof ToolError && message.test(error.message));
}

test("the catalog offers the named toolsets once, and lists the valid names for an unknown one", () => {
  const names = createTools({
    toolsets: ["files", "terminal", "files"],
    terminal: options,
    web,
    vision,
    skills,
  }).map((tool) => tool.name);
  assert.deepEqual(names, ["read_file", "write_file", "patch", "search_files", "terminal"]);
  for (const name of ["nets", "constructor"]) {
    assert.throws(
      () => createTools({ toolsets: [name], terminal: options, web, vision, skills }),
      (error) =>
        error instanceof ServiceError &&
        error.code === "invalid_config" &&
        /terminal, files/.test(error.message),
    );
  }
});

test("every schema is closed, described and small", () => {
  const tools = createTools({ toolsets: ["files", "terminal"], terminal: options, web, vision, skills });
  assert.ok(tools.length >= 5, tools.map(({ name }) => name).join());
  for (const tool of tools) {
    assert.equal(tool.parameters["additionalProperties"], false, tool.name);
    const properties = Object.values(
      tool.parameters["properties"] as Record<string, { description?: string }>,
    );
    for (const property of properties) assert.ok(property.description, tool.name);
  }
});

test("paths: links are resolved, even dangling ones", (t) => {
  const cwd = workspace(t);
  const outside = workspace(t);
  symlinkSync(outside, join(cwd, "out"));
  symlinkSync(join(outside, "not-yet"), join(cwd, "dangling"));
  symlinkSync("loop", join(cwd, "loop"));
  assert.equal(realPath("out/a/b", cwd), join(outside, "a/b"));
  assert.equal(realPath("dangling", cwd), join(outside, "not-yet"));
  assert.equal(realPath("x/../y", cwd), join(cwd, "y"));
  assert.equal(realPath("~", "/"), realPath(homedir(), "/"));
  assert.throws(() => realPath("loop", cwd), ToolError);
  assert.throws(() => realPath("a\0b", cwd), ToolError);
});

test("paths: a workspace that is itself a link keeps its name", (t) => {
  const real = workspace(t);
  const link = join(workspace(t), "link");
  symlinkSync(real, link);
  assert.equal(realPath("a/b", link), join(link, "a/b"));
});

test("inspect names the real target of a link", (t) => {
  const cwd = workspace(t);
  const outside = workspace(t);
  writeFileSync(join(outside, ".env"), "K=1");
  symlinkSync(join(outside, ".env"), join(cwd, "innocent"));
  assert.ok(inspect(readFile, { path: "innocent" }, cwd).reads?.includes(join(outside, ".env")));
  assert.ok(
    inspect(writeFile, { path: "innocent", content: "" }, cwd).writes?.includes(join(outside, ".env")),
  );
  const diff = "--- a/innocent\n+++ b/innocent\n@@ -1 +1 @@\n-K=1\n+K=2\n";
  assert.ok(inspect(patch, { diff }, cwd).writes?.includes(join(outside, ".env")));
});

test("read_file numbers lines and continues by offset", async (t) => {
  const cwd = workspace(t);
  writeFileSync(join(cwd, "a"), "one\r\ntwo\n\nfour");
  assert.equal(
    await call(readFile, { path: "a" }, { cwd }),
    "1\tone\n2\ttwo\n3\t\n4\tfour\n(end of file, 4 lines)",
  );
  assert.equal(
    await call(readFile, { path: "a", offset: 2, limit: 2 }, { cwd }),
    "2\ttwo\n3\t\n(lines 2 to 3; more follows: read on with offset 4)",
  );
  await rejects(call(readFile, { path: "a", offset: 9 }, { cwd }), /has 4 lines; offset 9/);
  writeFileSync(join(cwd, "empty"), "");
  assert.equal(await call(readFile, { path: "empty" }, { cwd }), "The file is empty.");
});

test("read_file cuts huge lines and huge files in bounded memory", async (t) => {
  const cwd = workspace(t);
  execFileSync("sh", ["-c", "head -c 150000000 /dev/zero | tr '\\0' x > big; echo >> big; echo end >> big"], {
    cwd,
  });
  const assertFlat = watchMemory();
  const text = await call(readFile, { path: "big" }, { cwd });
  assertFlat(100_000_000);
  assert.match(text, /^1\tx{2000} \[\.\.\. line cut, 150000000 bytes in total\]\n2\tend\n/);
  writeFileSync(join(cwd, "many"), `${"y".repeat(100)}\n`.repeat(10_000));
  const many = await call(readFile, { path: "many", limit: 5_000 }, { cwd });
  assert.ok(many.length < 110_000);
  assert.match(many, /more follows: read on with offset \d+\)$/);
});

test("read_file refuses files that are not text and suggests similar names", async (t) => {
  const cwd = workspace(t);
  mkdirSync(join(cwd, "folder"));
  writeFileSync(join(cwd, "settings.json"), "{}");
  writeFileSync(join(cwd, "image"), Buffer.from([137, 80, 0, 1]));
  execFileSync("mkfifo", ["pipe"], { cwd });
  await rejects(call(readFile, { path: "setings.json" }, { cwd }), /no such file.*settings\.json\?/);
  await rejects(call(readFile, { path: "folder" }, { cwd }), /is a directory/);
  await rejects(call(readFile, { path: "image" }, { cwd }), /binary/);
  await rejects(call(readFile, { path: "pipe" }, { cwd }), /not a regular file/);
  await rejects(call(readFile, { path: "settings.json/x" }, { cwd }), /no such file/);
  await assert.rejects(call(readFile, { path: "a", limit: 0 }, { cwd }), TypeError);
});

test("write_file creates parents, replaces in one step and keeps permissions", async (t) => {
  const cwd = workspace(t);
  assert.match(
    await call(writeFile, { path: "a/b/c", content: "é" }, { cwd }),
    /Created a\/b\/c \(2 bytes\)/,
  );
  chmodSync(join(cwd, "a/b/c"), 0o777);
  assert.match(await call(writeFile, { path: "a/b/c", content: "new" }, { cwd }), /Replaced/);
  assert.equal(readFileSync(join(cwd, "a/b/c"), "utf8"), "new");
  assert.equal(statSync(join(cwd, "a/b/c")).mode & 0o777, 0o777);
  assert.deepEqual(readdirSync(join(cwd, "a/b")), ["c"]);
});

test("write_file writes through a link and leaves the link", async (t) => {
  const cwd = workspace(t);
  writeFileSync(join(cwd, "target"), "old");
  symlinkSync("target", join(cwd, "link"));
  await call(writeFile, { path: "link", content: "new" }, { cwd });
  assert.equal(readFileSync(join(cwd, "target"), "utf8"), "new");
  assert.deepEqual(readdirSync(cwd), ["link", "target"]);
});

test("write_file refuses folders, pipes and too large contents, and leaves nothing behind", async (t) => {
  const cwd = workspace(t);
  mkdirSync(join(cwd, "folder"));
  writeFileSync(join(cwd, "file"), "");
  execFileSync("mkfifo", ["pipe"], { cwd });
  await rejects(call(writeFile, { path: "folder", content: "" }, { cwd }), /is a directory/);
  await rejects(call(writeFile, { path: "pipe", content: "" }, { cwd }), /not a regular file/);
  await rejects(call(writeFile, { path: "file/x", content: "" }, { cwd }), /a part of the path is a file/);
  await rejects(
    call(writeFile, { path: "big", content: "é".repeat(3_000_000) }, { cwd }),
    /limit is 5242880/,
  );
  const signal = AbortSignal.abort(new Error("stopped"));
  await assert.rejects(call(writeFile, { path: "new", content: "x" }, { cwd, signal }), /stopped/);
  assert.deepEqual(readdirSync(cwd).toSorted(), ["file", "folder", "pipe"]);
});

test("patch replaces exact text and returns the diff", async (t) => {
  const cwd = workspace(t);
  writeFileSync(join(cwd, "a"), "one\ntwo\nthree\n");
  const text = await call(patch, { path: "a", old: "two", new: "$& 2" }, { cwd });
  assert.match(text, /^Changed a\.\n/);
  assert.match(text, /-two\n\+\$& 2\n/);
  assert.equal(readFileSync(join(cwd, "a"), "utf8"), "one\n$& 2\nthree\n");
});

test("patch refuses ambiguous text with the count and the lines, unless all are meant", async (t) => {
  const cwd = workspace(t);
  writeFileSync(join(cwd, "a"), "x\ny\nx\nx");
  await rejects(call(patch, { path: "a", old: "x", new: "z" }, { cwd }), /3 times, at lines 1, 3, 4/);
  await call(patch, { path: "a", old: "x", new: "z", replace_all: true }, { cwd });
  assert.equal(readFileSync(join(cwd, "a"), "utf8"), "z\ny\nz\nz");
  writeFileSync(join(cwd, "b"), "aaa");
  await rejects(call(patch, { path: "b", old: "aa", new: "z" }, { cwd }), /2 times/);
});

test("patch says why nothing was found", async (t) => {
  const cwd = workspace(t);
  writeFileSync(join(cwd, "a"), "if (x) {\n\treturn 1;\n}\n");
  await rejects(call(patch, { path: "a", old: "  return 1;", new: "2" }, { cwd }), /resembles line 2/);
  await rejects(
    call(patch, { path: "a", old: "nothing", new: "2" }, { cwd }),
    /not found.*Read the file again/,
  );
  await rejects(call(patch, { path: "a", old: "", new: "2" }, { cwd }), /empty/);
  await rejects(call(patch, { path: "a", old: "if", new: "if" }, { cwd }), /nothing would change/);
  await rejects(call(patch, { path: "a" }, { cwd }), /Give path, old and new/);
  await rejects(call(patch, { path: "a", diff: manyFiles }, { cwd }), /not both/);
  await rejects(call(patch, { path: "b", old: "x", new: "y" }, { cwd }), /no such file/);
});

test("patch keeps line ends and byte order marks, and refuses other encodings than UTF-8", async (t) => {
  const cwd = workspace(t);
  writeFileSync(join(cwd, "crlf"), "\uFEFFone\r\ntwo\r\n");
  await call(patch, { path: "crlf", old: "one\ntwo", new: "1\n2" }, { cwd });
  assert.equal(readFileSync(join(cwd, "crlf"), "utf8"), "\uFEFF1\r\n2\r\n");
  writeFileSync(join(cwd, "latin"), Buffer.from([0x61, 0xe9, 0x62]));
  await rejects(call(patch, { path: "latin", old: "a", new: "b" }, { cwd }), /not UTF-8/);
  writeFileSync(join(cwd, "binary"), Buffer.from([0x61, 0, 0x62]));
  await rejects(call(patch, { path: "binary", old: "a", new: "b" }, { cwd }), /binary/);
});

test("patch applies a diff over several files: changed, created, deleted", async (t) => {
  const cwd = workspace(t);
  writeFileSync(join(cwd, "one"), "keep\nold\n");
  writeFileSync(join(cwd, "gone"), "gone\n");
  assert.match(await call(patch, { diff: manyFiles }, { cwd }), /^Changed one, sub\/made, gone\./);
  assert.equal(readFileSync(join(cwd, "one"), "utf8"), "keep\nnew\n");
  assert.equal(readFileSync(join(cwd, "sub/made"), "utf8"), "made\n");
  assert.deepEqual(readdirSync(cwd).toSorted(), ["one", "sub"]);
});

test("patch changes nothing when one of the files does not fit", async (t) => {
  const cwd = workspace(t);
  writeFileSync(join(cwd, "one"), "keep\nold\n");
  writeFileSync(join(cwd, "gone"), "something else\n");
  await rejects(call(patch, { diff: manyFiles }, { cwd }), /gone does not fit/);
  assert.equal(readFileSync(join(cwd, "one"), "utf8"), "keep\nold\n");
  assert.deepEqual(readdirSync(cwd).toSorted(), ["gone", "one"]);
});

test("patch undoes its changes when a later file cannot be written", async (t) => {
  const cwd = workspace(t);
  writeFileSync(join(cwd, "one"), "keep\nold\n");
  writeFileSync(join(cwd, "file"), "");
  const diff =
    "--- a/one\n+++ b/one\n@@ -1,2 +1,2 @@\n keep\n-old\n+new\n--- /dev/null\n+++ b/file/made\n@@ -0,0 +1 @@\n+made\n";
  await rejects(call(patch, { diff }, { cwd }), /a part of the path is a file/);
  assert.equal(readFileSync(join(cwd, "one"), "utf8"), "keep\nold\n");
  assert.deepEqual(readdirSync(cwd).toSorted(), ["file", "one"]);
});

test("patch refuses diffs that rename, name a file twice, or are invalid", async (t) => {
  const cwd = workspace(t);
  writeFileSync(join(cwd, "a"), "x\n");
  const one = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n";
  for (const diff of [
    "hello",
    "",
    "@@ broken",
    `${one}${one}`,
    one.replace("b/a", "b/c"),
    one.replace("a/a", "/dev/null"),
  ]) {
    await assert.rejects(call(patch, { diff }, { cwd }), ToolError, JSON.stringify(diff));
  }
  assert.equal(readFileSync(join(cwd, "a"), "utf8"), "x\n");
});
