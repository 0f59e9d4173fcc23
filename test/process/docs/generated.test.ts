/** What scripts write into docs/ is what the program gives. */
import assert from "node:assert/strict";
import { copyFile, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { runScript } from "../../harness/agentd.ts";

const root = join(import.meta.dirname, "../../..");
const script = join(root, "scripts/cli-reference.ts");

test("the reference of the commands is what the help says, and a page that differs is found", async () => {
  const folder = await mkdtemp(join(tmpdir(), "agentd-docs-"));
  try {
    const page = join(folder, "cli.md");
    await copyFile(join(root, "docs/cli.md"), page);
    const check = async () => (await runScript(script, ["--check", "--page", page], {})).code;
    assert.equal(await check(), 0);
    const written = await readFile(page, "utf8");
    await writeFile(page, written.replace("### agentd cron create\n", ""));
    assert.equal(await check(), 1);
    const { code, stderr } = await runScript(script, ["--page", page], {});
    assert.equal(code, 0, stderr);
    assert.equal(await readFile(page, "utf8"), written);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

test("the pictures of the documentation are small, and load nothing", async () => {
  const folder = join(root, "docs/pictures");
  const names = await readdir(folder);
  assert.ok(names.length > 0);
  for (const name of names) {
    const file = join(folder, name);
    const isScreenshot = name.endsWith(".png");
    assert.ok((await stat(file)).size < (isScreenshot ? 150_000 : 60_000), name);
    if (isScreenshot) continue;
    assert.doesNotMatch(await readFile(file, "utf8"), /<script|href=|url\(/, name);
  }
});
