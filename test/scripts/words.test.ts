import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import process from "node:process";
import { test, type TestContext } from "node:test";

const script = resolve(import.meta.dirname, "../../scripts/lint-words.ts");

async function lint(t: TestContext, files: Readonly<Record<string, string>>) {
  const root = await mkdtemp(join(tmpdir(), "agentd-words-"));
  t.after(() => rm(root, { recursive: true, force: true }));
  for (const [file, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, file)), { recursive: true });
    await writeFile(join(root, file), text);
  }
  const env = { ...process.env, WORDS_ROOT: root };
  const { status, stderr } = spawnSync(process.execPath, [script], { env, encoding: "utf8" });
  return { status, stderr };
}

test("plain words and finished sentences pass", async (t) => {
  const { status, stderr } = await lint(t, {
    "src/a.ts":
      "/** Returns the decision; undefined when there is no such run. It is no longer kept. */\nexport const decision = 1;\n",
    "specs/a.yaml": "description: Returns the oldest message.\n",
  });
  assert.deepEqual([status, stderr], [0, ""]);
});

for (const [where, file, text] of [
  ["a name", "src/a.ts", "export const findFlaw = 1;\n"],
  ["a comment", "src/a.ts", "// Whoever reads this is told.\nexport const a = 1;\n"],
  ["a test title", "test/a.test.ts", 'test("nobody is told", () => {});\n'],
  ["the README", "README.md", "A call waits for leave.\n"],
  ["a page of the documentation", "docs/sandbox.md", "A call waits for leave.\n"],
  ["the security policy", "SECURITY.md", "You are told when it ends.\n"],
  ["an example", "examples/a.ts", "// Whoever reads this is told.\n"],
  ["an inverted description", "specs/a.yaml", "description: What was summed up stays.\n"],
  ["a description that begins with there is", "specs/a.yaml", "description: There is no pet here.\n"],
  ["a negation", "src/a.ts", "// A frame that is no request is refused.\nexport const a = 1;\n"],
  ["the name of a person", "docs/a.md", "It waits until somebody answers.\n"],
  ["an unfinished description", "specs/a.yaml", "description: Returns the oldest\n"],
] as const) {
  test(`a private word or unclear style in ${where} fails the check`, async (t) => {
    const { status, stderr } = await lint(t, { [file]: text });
    assert.equal(status, 1, stderr);
    assert.match(stderr, new RegExp(`^${file.replaceAll(".", "\\.")}:\\d+: `, "m"));
  });
}
