import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { contextFiles, contextText } from "../../../../src/agent/skills/skills.ts";
import { workspace } from "../tools/call.ts";

const NAMES = ["AGENTS.md", "CLAUDE.md"];

test("each folder from the top of the repository down contributes its first file", async (t) => {
  const top = workspace(t);
  mkdirSync(join(top, ".git"));
  mkdirSync(join(top, "a/b"), { recursive: true });
  writeFileSync(join(top, "AGENTS.md"), "top");
  writeFileSync(join(top, "CLAUDE.md"), "not this one");
  writeFileSync(join(top, "a/b/CLAUDE.md"), "deep");
  const files = await contextFiles(join(top, "a/b"), NAMES);
  assert.deepEqual(
    files.map(({ text }) => text),
    ["top", "deep"],
  );
  const text = contextText(files);
  assert.ok(text.indexOf("top") < text.indexOf("deep"));
});

test("outside a repository only the working directory counts", async (t) => {
  const top = workspace(t);
  mkdirSync(join(top, "a"));
  writeFileSync(join(top, "AGENTS.md"), "above");
  assert.deepEqual(await contextFiles(join(top, "a"), NAMES), []);
  assert.equal(contextText([]), "");
});

test("long files are cut between characters with a note, at most 64 KiB in total", async (t) => {
  const top = workspace(t);
  mkdirSync(join(top, ".git"));
  mkdirSync(join(top, "a/b/c"), { recursive: true });
  for (const folder of ["", "a", "a/b", "a/b/c"]) {
    writeFileSync(join(top, folder, "AGENTS.md"), `x${"ä".repeat(40_000)}`);
  }
  const files = await contextFiles(join(top, "a/b/c"), NAMES);
  assert.ok(files.length > 1 && files.every(({ cut, text }) => cut && !text.includes("\ufffd")));
  assert.ok(files.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0) <= 65_536);
  assert.match(contextText(files), /left out/);
});

test("binary files, folders with the name and links out of the repository are skipped", async (t) => {
  const top = workspace(t);
  const outside = workspace(t);
  writeFileSync(join(outside, "secret"), "secret");
  mkdirSync(join(top, ".git"));
  mkdirSync(join(top, "a/b/AGENTS.md"), { recursive: true });
  writeFileSync(join(top, "AGENTS.md"), new Uint8Array([1, 0, 2]));
  symlinkSync(join(outside, "secret"), join(top, "a/AGENTS.md"));
  assert.deepEqual(await contextFiles(join(top, "a/b"), NAMES), []);
});
