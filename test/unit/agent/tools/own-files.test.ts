/** Hard links to the service's own files, which rules for paths cannot detect. */
import assert from "node:assert/strict";
import { linkSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { readLinked } from "../../../../src/acp/prompt/content-file.ts";
import { readAttachment } from "../../../../src/agent/attachments/attachment.ts";
import { contextFiles, Skills } from "../../../../src/agent/skills/skills.ts";
import { ToolError } from "../../../../src/agent/tool/tool.ts";
import { createPatch } from "../../../../src/agent/tools/files/patch.ts";
import { createReadFile } from "../../../../src/agent/tools/files/read-file.ts";
import { createSearchFiles } from "../../../../src/agent/tools/files/search-files.ts";
import { createSkill } from "../../../../src/agent/tools/skill.ts";
import { createVisionAnalyze } from "../../../../src/agent/tools/vision-analyze.ts";
import { createWriteFile } from "../../../../src/agent/tools/files/write-file.ts";
import { protectHome } from "../../../../src/base/system/own-files.ts";
import { call, workspace } from "./call.ts";

const KEY = "canary-key-0123";

interface Context {
  after(clean: () => void): void;
}

/** A home with keys, and a workspace with hard links to its files and a harmless pair. */
function made(t: Context) {
  const [home, cwd] = [workspace(t), workspace(t)];
  writeFileSync(join(home, ".env"), `A_KEY=${KEY}\n`);
  writeFileSync(join(home, "config.yaml"), `# ${KEY}\n`);
  linkSync(join(home, ".env"), join(cwd, "notes.txt"));
  linkSync(join(home, "config.yaml"), join(cwd, "AGENTS.md"));
  writeFileSync(join(cwd, "one.txt"), "harmless\n");
  linkSync(join(cwd, "one.txt"), join(cwd, "two.txt"));
  t.after(protectHome(home));
  return { home, cwd };
}

const refused = (error: unknown) =>
  error instanceof ToolError && /another name \(a hard link\) of/.test(error.message);

test("no file tool reads or changes a hard link to a file of the agent's home", async (t) => {
  const { home, cwd } = made(t);
  const [read, write, patch] = [createReadFile(), createWriteFile(), createPatch()];
  for (const path of ["notes.txt", "AGENTS.md"]) {
    await assert.rejects(call(read, { path }, { cwd }), refused);
    await assert.rejects(call(write, { path, content: "x" }, { cwd }), refused);
    await assert.rejects(call(patch, { path, old: KEY, new: "x" }, { cwd }), refused);
  }
  const vision = createVisionAnalyze({ model: "eyes:one", maxBytes: 1_000 });
  await assert.rejects(call(vision, { image: "notes.txt", question: "?" }, { cwd }), /another name/);
  assert.match(readFileSync(join(home, "config.yaml"), "utf8"), new RegExp(KEY));
  assert.match(await call(read, { path: "two.txt" }, { cwd }), /harmless/);
  assert.match(
    await call(read, { path: join(home, "config.yaml") }, { cwd }),
    new RegExp(KEY),
    "by its own name",
  );
});

test("a search skips hard links to files of the agent's home, and says so", async (t) => {
  const { cwd } = made(t);
  const search = createSearchFiles();
  const text = await call(search, { pattern: "canary|harmless" }, { cwd });
  assert.doesNotMatch(text, new RegExp(KEY));
  assert.match(text, /one\.txt:1[\s\S]*2 files that may hold secrets were omitted/);
  assert.doesNotMatch(await call(search, { pattern: "canary", path: "notes.txt" }, { cwd }), new RegExp(KEY));
});

test("a hard link to a file of the agent's home is neither attached, nor linked, nor a context file, nor part of a skill", async (t) => {
  const { home, cwd } = made(t);
  await assert.rejects(readAttachment("notes.txt", { cwd, roots: [cwd] }), /must not be attached/);
  const unsaved = async () => KEY;
  const files = { roots: [cwd] as const, home, agentHome: home, unsaved };
  assert.equal(await readLinked(join(cwd, "notes.txt"), files), undefined);
  assert.ok(await readLinked(join(cwd, "one.txt"), files), pathToFileURL(cwd).href);
  assert.deepEqual(await contextFiles(cwd, ["AGENTS.md"]), []);
  const folder = join(cwd, "skills", "s");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "SKILL.md"), "---\nname: s\ndescription: d\n---\nx\n");
  renameSync(join(cwd, "notes.txt"), join(folder, "notes.txt"));
  const skill = createSkill(new Skills({ homeFolder: join(cwd, "skills"), folders: [], disabled: [] }));
  await assert.rejects(call(skill, { action: "view", name: "s", file: "notes.txt" }, { cwd }), refused);
});

test("once the service has stopped, its home is an ordinary folder", async (t) => {
  const [home, cwd] = [workspace(t), workspace(t)];
  writeFileSync(join(home, "a"), "text\n");
  linkSync(join(home, "a"), join(cwd, "b"));
  const [first, second] = [protectHome(home), protectHome(home)];
  first();
  await assert.rejects(call(createReadFile(), { path: "b" }, { cwd }), refused);
  second();
  assert.match(await call(createReadFile(), { path: "b" }, { cwd }), /text/);
});
