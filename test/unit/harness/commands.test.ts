import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { text } from "node:stream/consumers";
import { test } from "node:test";

/** Does what its first word says, as the built program would. */
const MAIN = `
const [, , word] = process.argv;
process.stdout.write(word + " " + (process.env.GIVEN ?? "nothing") + "\\n");
if (word === "fails") process.exitCode = 3;
if (word === "waits") setTimeout(() => process.stderr.write("late\\n"), 50);
if (word === "leaves") process.exit(4);
`;

test("commands in one process have their own words, environment, output and exit code, and end when nothing is open", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "agentd-commands-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, "main.mjs"), MAIN);
  const script = join(import.meta.dirname, "../../harness/commands.ts");
  const child = spawn(process.execPath, [script, join(folder, "agentd.mjs")], {
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  const run = async (word: string, env: Readonly<Record<string, string>> = {}) => {
    child.send({ words: [word], env });
    return (await once(child, "message"))[0] as unknown;
  };
  assert.deepEqual(await run("fails", { GIVEN: "one" }), { code: 3, stdout: "fails one\n", stderr: "" });
  assert.deepEqual(await run("works"), { code: 0, stdout: "works nothing\n", stderr: "" });
  assert.deepEqual(await run("waits"), { code: 0, stdout: "waits nothing\n", stderr: "late\n" });
  // What ends the process itself: its output comes with it.
  const [output, ended] = [text(child.stdout!), once(child, "exit")];
  child.send({ words: ["leaves"], env: {} });
  assert.deepEqual(await ended, [4, null]);
  assert.equal(await output, "leaves nothing\n");
});
