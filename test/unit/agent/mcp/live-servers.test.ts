import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ToolError, type Questions } from "../../../../src/agent/tool/tool.ts";
import { McpServers } from "../../../../src/agent/mcp/servers.ts";
import { decide } from "../../../../src/agent/question/policy/policy.ts";
import { FakeClock } from "../../../harness/fake-clock.ts";
import { silentLog } from "../../../../src/base/observe.ts";
import { oncePerFile } from "../../../harness/guard.ts";
import { call, inspect } from "../tools/call.ts";
import { connected, folder, isAlive, pidsIn, sdk, toolOf, until } from "./fixture.ts";

const cwd = "/tmp";

/** For tests that do not change the server. */
const shared = oncePerFile(async () => {
  const servers = new McpServers(silentLog);
  await servers.use({ box: sdk() });
  return Object.assign(servers, { [Symbol.asyncDispose]: () => servers.close() });
});

const answering = (clarify: Questions["clarify"]) => ({
  questions: { clarify, sudo: async () => undefined, secret: async () => "skipped" as const },
});

test("a server's tools are offered as mcp_<server>_<tool> and answer", async (t) => {
  const servers = await connected(t, { "my.box": sdk() });
  const tool = toolOf(servers, "mcp_my_box_echo");
  assert.equal(await call(tool, { text: "hello" }, { cwd }), "hello");
  assert.equal(tool.toolset, "mcp");
  assert.deepEqual(inspect(tool, { text: "x" }, cwd), { kind: "tool", title: "my.box: echo" });
  const intent = inspect(tool, { text: "x" }, cwd);
  const place = { mode: "ask" as const, workspace: "/w", home: "/h", agentHome: "/h/a" };
  assert.equal(decide(intent, place, tool.name).outcome, "ask");
});

test("only the tools of the allow-list are offered", async (t) => {
  const servers = await connected(t, { box: sdk(undefined, { tools: ["echo", "absent"] }) });
  assert.deepEqual(
    servers.tools().map(({ name }) => name),
    ["mcp_box_echo"],
  );
});

test("two parallel calls each get their own answer", async () => {
  const servers = await shared();
  const slow = toolOf(servers, "mcp_box_slow");
  const answers = await Promise.all([
    call(slow, { ms: 150, text: "late" }, { cwd }),
    call(slow, { ms: 1, text: "early" }, { cwd }),
  ]);
  assert.deepEqual(answers, ["late", "early"]);
});

test("a result that the server marks as an error is a ToolError with its text", async () => {
  const servers = await shared();
  await assert.rejects(call(toolOf(servers, "mcp_box_fails"), {}, { cwd }), (error) => {
    return error instanceof ToolError && error.message === "the disk is full";
  });
});

test("long answers are cut with a note, and images are described", async () => {
  const servers = await shared();
  const long = await call(toolOf(servers, "mcp_box_floods"), {}, { cwd });
  assert.ok(long.length < 100_100);
  assert.match(long, /200000 characters cut/);
  const mixed = await call(toolOf(servers, "mcp_box_pictures"), {}, { cwd });
  assert.equal(mixed, "before\n[image image/png, 1234 bytes]");
});

test("notifications during a call do not disturb the connection", async () => {
  const servers = await shared();
  assert.equal(await call(toolOf(servers, "mcp_box_notifies"), {}, { cwd }), "notified");
  assert.equal(servers.status()[0]?.status, "connected");
  assert.equal(await call(toolOf(servers, "mcp_box_echo"), { text: "still" }, { cwd }), "still");
});

test("an aborted call ends at once, and its late answer is ignored", async (t) => {
  const file = join(folder(t), "pids");
  const servers = await connected(t, { box: sdk(file) });
  const stop = new AbortController();
  const slow = toolOf(servers, "mcp_box_slow");
  const aborted = call(slow, { ms: 20, text: "x" }, { cwd, signal: stop.signal });
  stop.abort(new Error("enough"));
  await assert.rejects(aborted, /enough/);
  assert.equal(await call(slow, { ms: 60, text: "after" }, { cwd }), "after");
  assert.equal(pidsIn(file).length, 1);
});

test("a call that takes too long is a ToolError, and the server keeps running", async (t) => {
  const file = join(folder(t), "pids");
  const servers = await connected(t, { box: sdk(file, { timeoutMs: 100 }) });
  const slow = call(toolOf(servers, "mcp_box_slow"), { ms: 1_000_000, text: "x" }, { cwd });
  await assert.rejects(slow, (error) => error instanceof ToolError && /within 0.1 s/.test(error.message));
  assert.equal(servers.status()[0]?.status, "connected");
  assert.deepEqual(pidsIn(file).map(isAlive), [true]);
});

test("a server that dies during a call is reported, and a later call restarts it", async (t) => {
  const file = join(folder(t), "pids");
  const clock = new FakeClock();
  const servers = await connected(t, { box: sdk(file) }, { clock });
  await assert.rejects(
    call(toolOf(servers, "mcp_box_dies"), {}, { cwd }),
    (error) => error instanceof ToolError && /box ended during the call/.test(error.message),
  );
  assert.equal(servers.status()[0]?.status, "failed");
  assert.match(servers.notices()[0] ?? "", /box cannot be used/);
  const echo = () => call(toolOf(servers, "mcp_box_echo"), { text: "back" }, { cwd });
  clock.tick(999);
  await assert.rejects(echo(), /box cannot be reached/);
  clock.tick(1);
  assert.equal(await echo(), "back");
  assert.equal(pidsIn(file).length, 2);
  assert.deepEqual(servers.notices(), []);
});

test("a server sees its own variables and none of the service's", async (t) => {
  process.env["AGENTD_TEST_CANARY"] = "ours";
  t.after(() => delete process.env["AGENTD_TEST_CANARY"]);
  const servers = await connected(t, { box: sdk(undefined, { env: { OWN: "1" } }) });
  const seen = JSON.parse(await call(toolOf(servers, "mcp_box_environment"), {}, { cwd }));
  assert.equal(seen.OWN, "1");
  assert.equal(seen.AGENTD_TEST_CANARY, undefined);
});

test("a server's questions reach the running call and return in the schema's types", async () => {
  const servers = await shared();
  const asked: unknown[] = [];
  const answer = await call(
    toolOf(servers, "mcp_box_elicits"),
    {},
    {
      cwd,
      context: answering(async (questions) => {
        asked.push(...questions.map(({ id, choices }) => [id, choices]));
        return { city: "Oslo", fast: "yes", seats: "2" };
      }),
    },
  );
  assert.deepEqual(asked, [
    ["city", ["Rome", "Oslo"]],
    ["fast", ["yes", "no"]],
    ["seats", null],
  ]);
  assert.deepEqual(JSON.parse(answer), {
    action: "accept",
    content: { city: "Oslo", fast: true, seats: 2 },
  });
});

test("an unanswered question is declined, and so is an invalid answer", async () => {
  const servers = await shared();
  const tool = toolOf(servers, "mcp_box_elicits");
  const nobody = answering(() => Promise.reject(new ToolError("nobody is there")));
  const wrong = answering(async () => ({ city: "Paris", fast: "yes", seats: "2" }));
  for (const context of [nobody, wrong]) {
    assert.deepEqual(JSON.parse(await call(tool, {}, { cwd, context })), { action: "decline" });
  }
});

test("a question is cancelled while calls of two sessions are running", async () => {
  const servers = await shared();
  const stop = new AbortController();
  const other = call(
    toolOf(servers, "mcp_box_slow"),
    { ms: 1_000_000, text: "x" },
    { cwd, signal: stop.signal, context: { sessionId: "ses_other" } },
  );
  const context = answering(() => Promise.reject(new Error("asked")));
  const answer = await call(toolOf(servers, "mcp_box_elicits"), {}, { cwd, context });
  assert.deepEqual(JSON.parse(answer), { action: "cancel" });
  stop.abort(new Error("enough"));
  await assert.rejects(other, /enough/);
});

test("reload keeps unchanged servers with their calls, replaces changed ones and stops removed ones", async (t) => {
  const base = folder(t);
  const files = ["same", "changed", "gone"].map((name) => join(base, name));
  const [same = "", changed = "", gone = ""] = files;
  const servers = await connected(t, { same: sdk(same), changed: sdk(changed), gone: sdk(gone) });
  const go = join(base, "go");
  const running = call(toolOf(servers, "mcp_same_waits"), { file: go, text: "kept" }, { cwd });
  toolOf(servers, "mcp_changed_echo");
  await servers.use({ same: sdk(same), changed: sdk(changed, { env: { NEW: "1" } }) });
  writeFileSync(go, "");
  assert.equal(await running, "kept");
  assert.equal(pidsIn(same).length, 1);
  assert.equal(pidsIn(changed).length, 2);
  assert.match(await call(toolOf(servers, "mcp_changed_environment"), {}, { cwd }), /"NEW":"1"/);
  assert.throws(() => toolOf(servers, "mcp_gone_echo"));
  assert.ok(!isAlive(pidsIn(gone)[0] ?? 0));
});

test("close stops a server with the processes it started", async (t) => {
  const file = join(folder(t), "pids");
  const servers = await connected(t, { box: sdk(file) });
  const child = Number(await call(toolOf(servers, "mcp_box_spawns"), {}, { cwd }));
  assert.ok(isAlive(child));
  await servers.close();
  assert.ok(!isAlive(pidsIn(file)[0] ?? 0));
  await until(() => !isAlive(child), "the server's child is gone");
  assert.deepEqual(servers.tools(), []);
});
