import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import {
  commandEnvironment,
  InputClosedError,
  runCommand,
  startCommand,
} from "../../../src/exec/process-group.ts";

const env = { PATH: "/usr/bin:/bin" };

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), "agentd-exec-"));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

function collector(): { readonly onOutput: (bytes: Uint8Array) => void; readonly text: () => string } {
  const chunks: Uint8Array[] = [];
  return {
    onOutput: (bytes) => chunks.push(Uint8Array.from(bytes)),
    text: () => Buffer.concat(chunks).toString(),
  };
}

test("a command with an open standard input does not run the user's start file", async (t) => {
  const cwd = folder(t);
  writeFileSync(join(cwd, ".bashrc"), "echo from-start-file\n");
  const output = collector();
  const running = startCommand("echo up", { cwd, env: { ...env, HOME: cwd }, onOutput: output.onOutput });
  assert.equal((await running.end).exitCode, 0);
  assert.equal(output.text(), "up\n");
});

test("a running command reads what is written to it, and refuses input after its end", async (t) => {
  const output = collector();
  const running = startCommand("cat", { cwd: folder(t), env, onOutput: output.onOutput });
  await running.write("hello", { close: true });
  assert.equal((await running.end).exitCode, 0);
  assert.equal(output.text(), "hello");
  await assert.rejects(running.write("more", { close: false }), InputClosedError);
});

test("a stopped command ends with all processes of its group", async (t) => {
  const output = collector();
  const started = Promise.withResolvers<void>();
  const running = startCommand("sleep 600 & echo $!; wait", {
    cwd: folder(t),
    env,
    onOutput: (bytes) => {
      output.onOutput(bytes);
      if (output.text().includes("\n")) started.resolve();
    },
  });
  await started.promise;
  running.stop();
  const end = await running.end;
  assert.deepEqual([end.exitCode, end.stoppedBy], [undefined, "abort"]);
});

test("a command that runs out of time says so, and one that leaves a process behind too", async (t) => {
  const cwd = folder(t);
  const { signal } = new AbortController();
  const onOutput = () => {};
  const late = await runCommand("sleep 600", { cwd, env, onOutput, signal, timeoutMs: 50 });
  assert.equal(late.stoppedBy, "timeout");
  const left = await runCommand("sleep 600 >/dev/null &", { cwd, env, onOutput, signal, timeoutMs: 60_000 });
  assert.deepEqual([left.exitCode, left.stoppedBy, left.leftovers], [0, undefined, true]);
});

test("commands see listed variables and shared ones, but no others", () => {
  const source = { PATH: "/bin", LC_ALL: "C", SECRET: "s", EXTRA: "e", UNSET: undefined };
  assert.deepEqual(commandEnvironment(["EXTRA", "UNSET"], { TOKEN: "t" }, source), {
    PATH: "/bin",
    LC_ALL: "C",
    EXTRA: "e",
    TOKEN: "t",
    TERM: "dumb",
  });
});
