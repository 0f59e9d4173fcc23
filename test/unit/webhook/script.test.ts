import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test, type TestContext } from "node:test";
import { createRunScript, type ScriptOutcome } from "../../../src/webhook/receive/ports.ts";

const input = { payload: { a: 1 }, event: "push", deliveryId: "d-1" };

async function openFolder(t: TestContext, scripts: Readonly<Record<string, string>>) {
  const folder = await mkdtemp(join(tmpdir(), "agentd-scripts-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(scripts)) await writeFile(join(folder, name), text);
  const warnings: unknown[] = [];
  const runScript = createRunScript({
    folder,
    timeoutMs: 20_000,
    envPassthrough: ["AGENTD_TEST_SHARED"],
    log: { warn: (_message, fields) => void warnings.push(fields) },
  });
  return { folder, warnings, run: (name: string) => runScript(name, input) };
}

async function eventually<T>(look: () => Promise<T | undefined>): Promise<T> {
  const patience = AbortSignal.timeout(60_000);
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    patience.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const pidIn = (file: string) =>
  eventually(async () => {
    const text = await readFile(file, "utf8").catch(() => "");
    return /^\d+\n$/.test(text) ? Number(text) : undefined;
  });

const goneIs = (pid: number) =>
  eventually(async () => {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => ") Z ");
    return /\) [ZX] /.test(stat) ? true : undefined;
  });

test("the exact output of a script decides its outcome", async (t) => {
  const object = { status: "payload", payload: { b: [2], __proto__x: 1 } };
  const cases: Readonly<Record<string, ScriptOutcome>> = {
    '{"b": [2], "__proto__x": 1}': object as ScriptOutcome,
    "[SILENT] ": { status: "ignore", reason: "it printed [SILENT]" },
    "[SILENT] but not only": { status: "text", text: "[SILENT] but not only" },
    '"[SILENT]"': { status: "text", text: '"[SILENT]"' },
    null: { status: "text", text: "null" },
    '{"a": 1} trailing': { status: "text", text: '{"a": 1} trailing' },
    '{"[SILENT]": 1}': { status: "payload", payload: { "[SILENT]": 1 } },
    "{}": { status: "payload", payload: {} },
  };
  const { folder, run } = await openFolder(t, { "say.sh": 'cat "$(dirname "$0")/said"' });
  for (const [said, expected] of Object.entries(cases)) {
    await writeFile(join(folder, "said"), `\n${said}\n`);
    assert.deepEqual(await run("say.sh"), expected, said);
  }
});

test("invalid UTF-8 in script output becomes text", async (t) => {
  const { run } = await openFolder(t, { "bytes.sh": "printf '\\xff\\xfe ok'" });
  assert.deepEqual(await run("bytes.sh"), { status: "text", text: "\uFFFD\uFFFD ok" });
});

test("the log shows that a script failed, and the record also its error output", async (t) => {
  const script = 'cat >&2; echo " key sk-ant-0123456789abcdef0123" >&2; exit 4';
  const { run, warnings } = await openFolder(t, { "fail.sh": script });
  const outcome = await run("fail.sh");
  assert.deepEqual(outcome, {
    status: "failed",
    reason: 'it ended with code 4: {"a":1} key [redacted]',
  });
  assert.deepEqual(warnings, [{ script: "fail.sh", delivery: "d-1", reason: "it ended with code 4" }]);
});

test("a folder, a pipe and an invalid path are not scripts", async (t) => {
  const { run } = await openFolder(t, {});
  for (const name of ["", ".", "..", "a\u0000b", "x".repeat(5_000), "/", "<home>/../x"]) {
    const outcome = await run(name);
    assert.deepEqual(outcome, {
      status: "failed",
      reason: "there is no such file in the folder of scripts",
    });
  }
});

test("a script does not outlive the process that started it", async (t) => {
  const hang = "sleep 600 & echo $! > child.pid; echo $$ > own.pid; sleep 600";
  const { folder } = await openFolder(t, { "hang.sh": hang });
  const program = join(import.meta.dirname, "script-child.ts");
  const args = "Deno" in globalThis ? ["run", "-A", "--no-check", program, folder] : [program, folder];
  const child = spawn(process.execPath, args, { stdio: ["pipe", "ignore", "inherit"] });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const pids = await Promise.all(["own.pid", "child.pid"].map((name) => pidIn(join(folder, name))));
  child.stdin.end("go\n");
  await exited;
  for (const pid of pids) assert.ok(await goneIs(pid));
});
