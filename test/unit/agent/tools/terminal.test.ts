import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { createTerminal } from "../../../../src/agent/tools/process/terminal.ts";
import { ToolError } from "../../../../src/agent/tool/tool.ts";
import { systemClock } from "../../../../src/base/time.ts";
import { call, callWhole, inspect, workspace, watchMemory } from "./call.ts";

const terminal = createTerminal({
  timeoutMs: 60_000,
  maxOutputBytes: 20_000,
  envPassthrough: ["AGENTD_TEST_SHOWN"],
});

/** Runs a command that prints "begun" and does not end: with longer and longer limits, until it could begin. */
async function timedOut(command: string, cwd: string) {
  for (const seconds of [0.3, 3, 30]) {
    const text = await call(terminal, { command, timeout_seconds: seconds }, { cwd });
    if (text.includes("begun")) return { text, seconds };
  }
  assert.fail("the command did not begin");
}

/** Ended, or a zombie. */
function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return true;
  }
  return existsSync("/proc") && /\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
}

test("a command's exit code, duration and output are in the result", async (t) => {
  const text = await call(terminal, { command: "echo hello; exit 3" }, { cwd: workspace(t) });
  assert.match(text, /^Exit code 3 after \d+\.\d\d s\.\nOutput:\nhello\n$/);
});

test("a command that failed or timed out says so by a code", async (t) => {
  const cwd = workspace(t);
  for (const [command, code] of [
    ["true", undefined],
    ["exit 3", "command_failed"],
    ["kill -9 $$", "command_failed"],
    ["sleep 500", "timed_out"],
  ] as const) {
    const limit = code === "timed_out" ? { timeout_seconds: 0.3 } : {};
    const output = await callWhole(terminal, { command, ...limit }, { cwd });
    assert.equal(output.code, code, command);
  }
});

test("standard output and standard error keep their order", async (t) => {
  const text = await call(
    terminal,
    { command: "for i in 1 2 3; do echo o$i; echo e$i >&2; done" },
    { cwd: workspace(t) },
  );
  assert.match(text, /o1\ne1\no2\ne2\no3\ne3\n/);
});

test("a silent command says so", async (t) => {
  assert.match(await call(terminal, { command: "true" }, { cwd: workspace(t) }), /No output\.$/);
});

test("a command runs in the workspace, or in workdir", async (t) => {
  const cwd = workspace(t);
  mkdirSync(join(cwd, "sub dir"));
  assert.match(await call(terminal, { command: "pwd" }, { cwd }), new RegExp(`\n${cwd}\n`));
  assert.match(await call(terminal, { command: "pwd", workdir: "sub dir" }, { cwd }), /sub dir\n/);
  await assert.rejects(call(terminal, { command: "pwd", workdir: "none" }, { cwd }), ToolError);
});

test("people and policy see the workdir as part of the command", (t) => {
  const intent = inspect(terminal, { command: "rm x", workdir: "/it's" }, workspace(t));
  assert.equal(intent.command, "cd '/it'\\''s' && rm x");
  assert.equal(intent.kind, "command");
});

test("standard input is closed: a command that reads it ends", async (t) => {
  assert.match(await call(terminal, { command: "cat; echo done" }, { cwd: workspace(t) }), /Output:\ndone/);
});

test("the environment is a short list of names without secrets", async (t) => {
  process.env["AGENTD_TEST_HIDDEN"] = "hidden-value";
  process.env["AGENTD_TEST_SHOWN"] = "shown-value";
  t.after(() => {
    delete process.env["AGENTD_TEST_HIDDEN"];
    delete process.env["AGENTD_TEST_SHOWN"];
  });
  const text = await call(terminal, { command: "env" }, { cwd: workspace(t) });
  assert.doesNotMatch(text, /hidden-value/);
  assert.match(text, /AGENTD_TEST_SHOWN=shown-value/);
  assert.match(text, /TERM=dumb/);
  assert.match(text, /PATH=/);
});

test("200 MB of output use bounded memory, and the result has the beginning and the end", async (t) => {
  let live = 0;
  const assertFlat = watchMemory();
  const command = "echo first; head -c 200000000 /dev/zero | tr '\\0' x; echo; echo last";
  const text = await call(
    terminal,
    { command, timeout_seconds: 600 },
    { cwd: workspace(t), progress: (delta) => (live += delta.length) },
  );
  assertFlat(120_000_000);
  assert.ok(text.length < 20_500, `${text.length} characters`);
  assert.match(text, /Output:\nfirst\nx+\n\[\.\.\. 199980\d\d\d bytes omitted \.\.\.\]\nx+\nlast\n$/);
  assert.ok(live <= 262_144);
});

test("live output arrives while the command runs", async (t) => {
  const cwd = workspace(t);
  const command = "echo ready; while [ ! -e go ]; do sleep 0.02; done; echo went";
  const text = await call(
    terminal,
    { command },
    {
      cwd,
      progress: (delta) => {
        if (delta.includes("ready")) writeFileSync(join(cwd, "go"), "");
      },
    },
  );
  assert.match(text, /ready\nwent/);
});

test("output cut inside a character shows no broken character", async (t) => {
  const small = createTerminal({ timeoutMs: 60_000, maxOutputBytes: 101, envPassthrough: [] });
  const text = await call(
    small,
    { command: "for i in {1..200}; do printf '\\xe2\\x82\\xac'; done" },
    { cwd: workspace(t) },
  );
  assert.doesNotMatch(text, /\uFFFD/);
  assert.match(text, /€\n\[\.\.\. \d+ bytes omitted \.\.\.\]\n€/);
});

test("at the timeout the whole group is stopped, and the result says so", async (t) => {
  const cwd = workspace(t);
  const { text, seconds } = await timedOut("(sleep 500; true) & echo $! > pid; echo begun; sleep 500", cwd);
  assert.ok(text.includes(`Timed out: stopped after ${seconds} s.`), text);
  assert.match(text, /begun/);
  assert.ok(isGone(Number(readFileSync(join(cwd, "pid"), "utf8"))));
});

test("a command that ignores SIGTERM is stopped", async (t) => {
  const cwd = workspace(t);
  const command =
    "trap '' TERM; (trap '' TERM; echo $BASHPID > pid; echo begun; while :; do sleep 1; done) & while :; do sleep 1; done";
  const { text } = await timedOut(command, cwd);
  assert.match(text, /Ended by SIGKILL/);
  assert.ok(isGone(Number(readFileSync(join(cwd, "pid"), "utf8"))));
});

test("an abort stops grandchildren before the call rejects with the signal's reason", async (t) => {
  const cwd = workspace(t);
  const controller = new AbortController();
  const reason = new Error("stopped by the test");
  const running = call(
    terminal,
    { command: "bash -c '(sleep 500 & echo $! > pid; echo up; wait)' ; sleep 500" },
    {
      cwd,
      signal: controller.signal,
      progress: () => controller.abort(reason),
    },
  );
  await assert.rejects(running, reason);
  assert.ok(isGone(Number(readFileSync(join(cwd, "pid"), "utf8"))));
});

test("an already aborted call starts nothing", async (t) => {
  const cwd = workspace(t);
  await assert.rejects(
    call(terminal, { command: "touch ran" }, { cwd, signal: AbortSignal.abort(new Error("no")) }),
    /no/,
  );
  assert.equal(existsSync(join(cwd, "ran")), false);
});

test("processes left in the background are stopped with the command", async (t) => {
  const cwd = workspace(t);
  const text = await call(terminal, { command: "sleep 500 & echo $! > pid; echo done" }, { cwd });
  assert.match(
    text,
    /Exit code 0 .*\nProcesses that it left in the background were stopped\.\nOutput:\ndone/,
  );
  assert.ok(isGone(Number(readFileSync(join(cwd, "pid"), "utf8"))));
});

test("a descendant that left the group and holds the output does not hang the call", async (t) => {
  const cwd = workspace(t);
  const command =
    "setsid bash -c 'echo $$ > pid; exec sleep 500' & while [ ! -s pid ]; do sleep 0.02; done; echo done";
  const text = await call(terminal, { command }, { cwd });
  process.kill(Number(readFileSync(join(cwd, "pid"), "utf8")), "SIGKILL");
  assert.match(text, /done/);
});

test("arguments outside the schema are refused", async (t) => {
  const cwd = workspace(t);
  for (const input of [
    {},
    { command: "" },
    { command: "ls", timeout_seconds: 601 },
    { command: "ls", other: 1 },
  ]) {
    await assert.rejects(call(terminal, input, { cwd }), TypeError, JSON.stringify(input));
  }
  await assert.rejects(call(terminal, { command: "ls \0" }, { cwd }), ToolError);
});

test("a command that has ended leaves no timer behind", async (t) => {
  const pending = new Set<number>();
  const { after, sleep } = systemClock;
  let count = 0;
  t.mock.method(systemClock, "after", (ms: number, run: () => void) => {
    const id = count++;
    pending.add(id);
    const cancel = after(ms, () => {
      pending.delete(id);
      run();
    });
    return () => {
      pending.delete(id);
      cancel();
    };
  });
  t.mock.method(systemClock, "sleep", (...args: Parameters<typeof sleep>) => {
    const id = count++;
    pending.add(id);
    return sleep(...args).finally(() => pending.delete(id));
  });
  await call(terminal, { command: "echo hello" }, { cwd: workspace(t) });
  assert.ok(count > 0);
  assert.deepEqual([...pending], []);
});
