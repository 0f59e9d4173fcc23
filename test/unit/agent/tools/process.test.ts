import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { test } from "node:test";
import { ToolError } from "../../../../src/agent/tool/tool.ts";
import { createProcess, Processes } from "../../../../src/agent/tools/process/processes.ts";
import { createTerminal } from "../../../../src/agent/tools/process/terminal.ts";
import { forgetSecret, registerSecret } from "../../../../src/base/observe.ts";
import { call, inspect, workspace } from "./call.ts";

function made(t: { after(clean: () => Promise<void>): void }, maxRunning = 8) {
  const processes = new Processes({ maxRunning });
  t.after(() => processes.close());
  const terminal = createTerminal({
    timeoutMs: 10_000,
    maxOutputBytes: 20_000,
    envPassthrough: [],
    processes,
  });
  const tool = createProcess(processes);
  const start = async (command: string, cwd: string, sessionId = "ses_test") => {
    const text = await call(terminal, { command, background: true }, { cwd, context: { sessionId } });
    const id = /prc_\w+/.exec(text)![0];
    // On a busy machine the first output comes after the answer.
    const isLate = /^(?!printf).*echo/.test(command) && text.includes("No output yet");
    if (isLate) await processes.wait(id, sessionId, { timeoutMs: 60_000, orOutput: true, signal: quiet() });
    return {
      id,
      text: isLate ? `${text}\n${await act({ action: "poll", process_id: id }, cwd, sessionId)}` : text,
    };
  };
  const act = (input: object, cwd = "/", sessionId = "ses_test") =>
    call(tool, input, { cwd, context: { sessionId } });
  return { processes, start, act };
}

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return true;
  }
  return existsSync(`/proc/${pid}/stat`) && /\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
}

const quiet = () => new AbortController().signal;

test("a background command returns immediately with its id and first output, and keeps running", async (t) => {
  const { start, act, processes } = made(t);
  const { text, id } = await start("echo ready; read line; echo got $line", workspace(t));
  assert.match(text, /is running in the background[\s\S]*ready/);
  assert.match(await act({ action: "list" }), new RegExp(`${id}.*Running`));
  assert.match(await act({ action: "write", process_id: id, text: "hello\n" }), /Running|Ended|got hello/);
  await processes.wait(id, "ses_test", { timeoutMs: 60_000, signal: quiet() });
  const { view } = processes.poll(id, "ses_test");
  assert.equal(view.end?.exitCode, 0);
});

test("a command that fails immediately says so in the first answer", async (t) => {
  const { start } = made(t);
  const { text } = await start("echo broken; exit 7", workspace(t));
  assert.match(text, /broken/);
});

test("poll returns the output since the last poll, each part once", async (t) => {
  const { start, act, processes } = made(t);
  const { id } = await start("echo one; read x; echo two; read x", workspace(t));
  const wait = () => processes.wait(id, "ses_test", { timeoutMs: 60_000, orOutput: true, signal: quiet() });
  assert.match(await act({ action: "poll", process_id: id }), /No new output/);
  await act({ action: "write", process_id: id, text: "\n" });
  await wait();
  // The write may have returned it already.
  assert.doesNotMatch(await act({ action: "poll", process_id: id }), /one/);
});

test("wait ends with the process, with its timeout, and with the call", async (t) => {
  const { start, act, processes } = made(t);
  const { id } = await start("sleep 60", workspace(t));
  assert.match(await act({ action: "wait", process_id: id, timeout_seconds: 0.05 }), /Running/);
  const stop = new AbortController();
  const waiting = processes.wait(id, "ses_test", { timeoutMs: 60_000, signal: stop.signal });
  stop.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
  const ended = act({ action: "wait", process_id: id, timeout_seconds: 60 });
  await processes.kill(id, "ses_test");
  assert.match(await ended, /Ended by SIGTERM/);
});

test("kill stops the whole group, with grandchildren", async (t) => {
  const { start, act } = made(t);
  const { text, id } = await start("sh -c 'sleep 60 & echo $!; wait'", workspace(t));
  const pid = Number(/^\d+$/m.exec(text)![0]);
  assert.match(await act({ action: "kill", process_id: id }), /Killed/);
  assert.ok(isGone(pid));
  assert.match(await act({ action: "kill", process_id: id }), /had already ended/);
});

test("a process that ignores SIGTERM is killed", async (t) => {
  const { start, act } = made(t);
  const { id } = await start("trap '' TERM; echo up; while :; do sleep 0.1; done", workspace(t));
  assert.match(await act({ action: "kill", process_id: id }), /Killed[\s\S]*SIGKILL/);
});

test("other sessions neither see nor reach a process", async (t) => {
  const { start, act, processes } = made(t);
  const { id } = await start("sleep 60", workspace(t));
  assert.equal(await act({ action: "list" }, "/", "ses_other"), "No background processes exist.");
  for (const action of ["poll", "wait", "kill", "write"]) {
    const input = { action, process_id: id, ...(action === "write" ? { text: "x" } : {}) };
    await assert.rejects(act(input, "/", "ses_other"), /No process has the id/);
  }
  assert.equal(await processes.killAll({ sessionId: "ses_other" }), 0);
  assert.equal(await processes.killAll({ sessionId: "ses_test" }), 1);
});

test("the limit of background processes applies until one of them ends", async (t) => {
  const { start, processes } = made(t, 2);
  const cwd = workspace(t);
  const first = await start("sleep 60", cwd);
  await start("sleep 60", cwd, "ses_other");
  await assert.rejects(start("sleep 60", cwd), /2 background processes are running; the limit is 2/);
  await processes.kill(first.id, "ses_test");
  await start("sleep 60", cwd);
});

test("input for a process that has ended, or has closed its input, is refused", async (t) => {
  const { start, act, processes } = made(t);
  const { id } = await start("exec 0<&-; echo closed; sleep 60", workspace(t));
  await assert.rejects(
    act({ action: "write", process_id: id, text: "x".repeat(65_536) }).then(() =>
      act({ action: "write", process_id: id, text: "x".repeat(65_536) }),
    ),
    ToolError,
  );
  await processes.kill(id, "ses_test");
  await assert.rejects(act({ action: "write", process_id: id, text: "x" }), /has ended/);
  await assert.rejects(act({ action: "write", process_id: id }), /needs text/);
  await assert.rejects(act({ action: "poll" }), /needs process_id/);
});

test("the end of a flood is kept, with the number of dropped bytes", async (t) => {
  const { start, act, processes } = made(t);
  const { id } = await start("head -c 5000000 /dev/zero | tr '\\0' x; echo the end", workspace(t));
  await processes.wait(id, "ses_test", { timeoutMs: 60_000, signal: quiet() });
  const text = await act({ action: "poll", process_id: id });
  assert.match(text, /bytes dropped here[\s\S]*the end/);
  assert.ok(text.length < 300_000);
});

test("input for a process is evaluated like a command", (t) => {
  const tool = createProcess(made(t).processes);
  const { kind, command } = inspect(tool, { action: "write", process_id: "prc_1", text: "rm -rf /\n" }, "/");
  assert.deepEqual([kind, command], ["command", "rm -rf /\n"]);
});

test("a secret split over two polls is redacted in both", async (t) => {
  const { start, act, processes } = made(t);
  registerSecret("horse-battery-9");
  t.after(async () => forgetSecret("horse-battery-9"));
  const { text, id } = await start("printf horse-bat; read x; echo tery-9 done; read x", workspace(t));
  const seen = [text];
  seen.push(await act({ action: "write", process_id: id, text: "\n" }));
  // The write may have returned the rest already.
  while (!seen.join("").includes("done")) {
    await processes.wait(id, "ses_test", { timeoutMs: 60_000, orOutput: true, signal: quiet() });
    seen.push(await act({ action: "poll", process_id: id }));
  }
  assert.doesNotMatch(seen.join(""), /horse-bat|tery-9/);
  assert.match(seen.join(""), /\[redacted\] done/);
});

test("closing stops every process", async (t) => {
  const { start, processes } = made(t);
  const { text } = await start("echo $$; sleep 60", workspace(t));
  await processes.close();
  assert.ok(isGone(Number(/^\d+$/m.exec(text)![0])));
  assert.deepEqual(processes.list(), []);
});
