import assert from "node:assert/strict";
import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { startRpcProcess, type RpcProcess } from "../../harness/rpc.ts";
import { agentdCommand, scriptCommand } from "../../harness/program.ts";
import { runRpcProcess } from "../../harness/rpc-run.ts";

async function makeHome(context: TestContext): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), "agentd-stdio-"));
  context.after(() => rm(home, { recursive: true, force: true }));
  return home;
}

async function writeConfig(home: string, text: string): Promise<void> {
  await mkdir(home, { recursive: true, mode: 0o700 });
  await writeFile(join(home, "config.yaml"), text, { mode: 0o600 });
}

const PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n';

test("the end of the input ends the process with 0 after every call is answered", async (context) => {
  const host = await startRpcProcess(await makeHome(context));
  const answers = Array.from({ length: 5 }, () => host.call("rpc.discover"));
  host.wire.close();
  await Promise.all(answers);
  assert.equal(await host.wire.closed, 0);
});

for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"] as const) {
  test(`${signal} ends the process with 0`, async (context) => {
    const host = await startRpcProcess(await makeHome(context));
    await host.result("ping");
    host.kill(signal);
    assert.equal(await host.wire.closed, 0);
  });
}

test("gateway.ready comes first, and earlier input is answered", async (context) => {
  const ended = await runRpcProcess(await makeHome(context), { input: `${PING}{"jsonrpc":"2.0","id":2` });
  const [first, ...rest] = ended.frames;
  assert.equal(ended.code, 0, ended.stderr);
  assert.equal(first.params.type, "gateway.ready");
  assert.deepEqual(
    rest.map(({ id, result, error }) => [id, result ?? error.code]),
    [
      [1, { pong: true }],
      [null, -32700],
    ],
  );
});

test("sessions work in the folder where the host was started, or in --cwd", async (context) => {
  const home = await makeHome(context);
  const folder = await realpath(await makeHome(context));
  await mkdir(join(folder, "src"));
  await writeFile(join(folder, "src", "main.py"), "print(1)\n");
  await using host = await startRpcProcess(home, {}, agentdCommand("rpc"), folder);
  const { session_id: id, info } = await host.result("session.create", { cols: 80 });
  assert.equal(info.cwd, folder);
  assert.equal((await host.result("session.status", { session_id: id })).state.cwd, folder);
  const { items } = await host.result("complete.path", { word: "@src/" });
  assert.deepEqual(
    items.map(({ text }: { text: string }) => text),
    ["@file:src/main.py"],
  );
  const named = await host.result("session.create", { cwd: home });
  assert.equal(named.info.cwd, await realpath(home));
  await using other = await startRpcProcess(home, {}, agentdCommand("rpc", "--cwd", join(folder, "src")));
  assert.equal((await other.result("session.create")).info.cwd, join(folder, "src"));
});

test("a signal during start-up ends the process with 0", async (context) => {
  const host = await startRpcProcess(await makeHome(context));
  host.kill("SIGTERM");
  assert.equal(await host.wire.closed, 0);
});

test("an invalid configuration: no frame, the problem on standard error, exit 1", async (context) => {
  const home = await makeHome(context);
  await writeConfig(home, "sessions:\n  max_queue: many\n");
  const { code, frames, stderr } = await runRpcProcess(home, { input: PING });
  assert.deepEqual([code, frames], [1, []]);
  assert.match(stderr, /sessions\.max_queue must be/);
  assert.match(stderr, /agentd config check/);
});

test("a database that cannot be opened: no frame, the reason on standard error, exit 1", async (context) => {
  const home = await makeHome(context);
  await writeFile(join(home, "state.db"), "this is no database, but long enough to be looked at ".repeat(20));
  const { code, frames, stderr } = await runRpcProcess(home, { input: PING });
  assert.deepEqual([code, frames], [1, []]);
  assert.match(stderr, /not a SQLite database/);
});

test("a start that fails after gateway.ready: a fatal error event, the reason on standard error, exit 1", async (context) => {
  const home = await makeHome(context);
  await writeConfig(home, "model:\n  default: nobody:nothing\n");
  const { code, frames, stderr } = await runRpcProcess(home, { input: PING });
  assert.deepEqual(
    frames.map(({ params }) => params.type),
    ["gateway.ready", "error"],
  );
  const { fatal, message } = frames[1].params.payload;
  assert.deepEqual([fatal, code], [true, 1]);
  assert.match(message, /nobody/);
  assert.ok(stderr.includes(message), stderr);
});

const leavings: Readonly<Record<string, (host: RpcProcess) => void>> = {
  "the end of the input": (host) => host.wire.close(),
  SIGTERM: (host) => host.kill("SIGTERM"),
  SIGHUP: (host) => host.kill("SIGHUP"),
};
for (const [name, leave] of Object.entries(leavings)) {
  test(`${name} during a turn: message.complete comes, once, and the process ends with 0`, async (context) => {
    const host = await startRpcProcess(await makeHome(context));
    const turn = await beginTurn(host);
    leave(host);
    assert.equal(await host.wire.closed, 0, host.stderr());
    const events = host.events(turn.sessionId);
    const ends = events.filter(({ type }) => type === "message.complete");
    assert.deepEqual(
      ends.map(({ turn_id, payload }) => [turn_id, payload.status]),
      [[turn.id, "interrupted"]],
    );
    const calls = events.filter(({ type }) => type === "tool.start" || type === "tool.complete");
    assert.deepEqual(
      calls.map(({ type }) => type),
      ["tool.start", "tool.complete"],
    );
  });
}

test("when the host is gone during a turn, the process ends with 0, and the turn as interrupted", async (context) => {
  const home = await makeHome(context);
  const host = await startRpcProcess(home);
  const turn = await beginTurn(host);
  host.breakOutput();
  // A pipe tells that it is broken when somebody writes.
  host.send({ jsonrpc: "2.0", id: "last", method: "ping" });
  assert.equal(await host.wire.closed, 0, host.stderr());
  await using next = await startRpcProcess(home);
  const epoch = next.events()[0].payload.replay_epoch;
  const cursor = { epoch, last_seen: 0 };
  await next.result("session.resume", { session_id: turn.sessionId, cursor });
  const { turn_id: id, payload } = await next.event("message.complete");
  assert.deepEqual([id, payload.status], [turn.id, "interrupted"]);
});

/** A turn whose tool is at work for longer than any test. */
async function beginTurn(host: RpcProcess): Promise<{ sessionId: string; id: string }> {
  const { session_id: sessionId } = await host.result("session.create");
  const { turn_id: id } = await host.result("prompt.submit", {
    session_id: sessionId,
    text: "run: sleep 600",
  });
  await host.event("tool.start");
  return { sessionId, id };
}

test("standard output carries only frames, whatever prints", async (context) => {
  const noisy = fileURLToPath(new URL("noisy.ts", import.meta.url));
  const host = await startRpcProcess(await makeHome(context), {}, scriptCommand(noisy));
  for (let n = 0; n < 20; n++) await host.result("ping");
  host.wire.close();
  await host.wire.closed;
  for (const text of ["from the console", "from: 'info'", "from the stream", "from a table"]) {
    assert.ok(host.stderr().includes(text) || host.stderr().includes(text.replaceAll("'", '"')), text);
  }
});

test("output of a turn's commands, even to standard output, is sent in frames", async (context) => {
  await using host = await startRpcProcess(await makeHome(context));
  const { session_id: sessionId } = await host.result("session.create");
  const text = "run: echo to the pipe; echo to the error >&2; sh -c 'echo from a child'";
  await host.result("prompt.submit", { session_id: sessionId, text });
  const { payload } = await host.event("tool.complete");
  const said = JSON.stringify(payload.result);
  for (const part of ["to the pipe", "to the error", "from a child"]) assert.ok(said.includes(part), said);
  await host.event("message.complete");
});

test("a line above the limit is refused, and the next one is answered", async (context) => {
  await using host = await startRpcProcess(await makeHome(context));
  host.wire.send("x".repeat(16 * 1_048_576 + 1));
  const { error } = await host.frame((frame) => frame.error !== undefined);
  assert.deepEqual([error.code, error.data.reason], [-32600, "frame_too_large"]);
  assert.deepEqual(await host.result("ping"), { pong: true });
});
