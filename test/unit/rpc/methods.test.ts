import assert from "node:assert/strict";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { callsOnce, testTool } from "../../harness/agent.ts";
import { createTestDeps, withCode } from "./deps.ts";

const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const asking = () => ({
  tools: [testTool(async () => "done")],
  script: callsOnce("rm -rf /srv/a", "rm -rf /srv/b"),
  settings: { policyMode: "ask" as const },
});

test("an approval without an id settles the oldest, all settles the rest, and a settled one is 4009", async () => {
  await using it = await createTestDeps(asking());
  const { runId, sessionId } = await it.agent.submit("go", { answerable: true });
  await it.agent.event(runId, "approval.request");
  const [first] = (await it.call("approval.pending", { session_id: sessionId })).approvals;
  assert.ok(first);
  await assert.rejects(
    it.call("approval.respond", { session_id: sessionId, request_id: "nope" }),
    withCode(4009),
  );
  const stranger = it.as({ identity: { owner: "other", scopes: ["admin"] } });
  await assert.rejects(it.call("approval.respond", { session_id: sessionId }, stranger), withCode(4001));
  assert.deepEqual(await it.call("approval.respond", { session_id: sessionId }), { resolved: 1 });
  await assert.rejects(
    it.call("approval.respond", { session_id: sessionId, request_id: first.request_id }),
    withCode(4009),
  );
  await assert.rejects(
    it.call("clarify.respond", { request_id: first.request_id, answer: "" }),
    withCode(4009),
  );
  await it.agent.runs.stop(runId, "over");
});

test("request.answer needs a fitting answer, and an approval in an unknown session is 4001", async () => {
  await using it = await createTestDeps(asking());
  const { runId, sessionId } = await it.agent.submit("go", { answerable: true });
  const asked = await it.agent.event(runId, "approval.request");
  const id = String(asked.data["request_id"]);
  await assert.rejects(it.call("request.answer", { id, result: {} }), withCode(4002));
  await assert.rejects(it.call("request.answer", { id, result: { choice: "maybe" } }), withCode(4002));
  assert.deepEqual(await it.call("request.answer", { id, result: { choice: "deny", all: true } }), {
    status: "ok",
  });
  await assert.rejects(it.call("approval.respond", { session_id: "none" }), withCode(4001));
  await it.agent.runs.stop(runId, "over");
  assert.ok(sessionId);
});

test("an unknown key is 4002, and config.get reveals no secret", async () => {
  await using it = await createTestDeps();
  await writeFile(join(it.home, "config.yaml"), "version: 1\napi_server:\n  key: canary-0123456789abcdef\n");
  for (const key of ["__proto__", "constructor", "", "a.b.c", "api_server.nope"]) {
    await assert.rejects(it.call("config.get", { key }), withCode(4002), key);
    await assert.rejects(it.call("config.set", { key, value: "x" }), withCode(4002), key);
  }
  assert.ok(((await it.call("config.get", { key: "mtime" })).mtime ?? 0) > 0);
  for (const key of [
    "full",
    "api_server",
    "api_server.key",
    "provider",
    "model",
    "profile",
    "project",
    "prompt",
  ]) {
    const text = JSON.stringify(await it.call("config.get", { key }));
    assert.ok(!text.includes("canary"), key);
  }
  const set = await it.call("config.set", { key: "api_server.key", value: "canary-fedcba9876543210" });
  assert.ok(!JSON.stringify(set).includes("canary"));
  assert.deepEqual((await it.call("config.set", { key: "busy", value: "steer" })).scope, "global");
  assert.equal((await it.call("config.get", { key: "sessions.when_busy" })).value, "steer");
  await assert.rejects(it.call("config.set", { key: "busy", value: "dance" }), withCode(4002));
});

test("model, reasoning, yolo, cwd and title apply to the session", async () => {
  await using it = await createTestDeps();
  const session_id = it.open();
  await mkdir(join(it.workspace, "sub"));
  const set = (key: string, value: unknown) => it.call("config.set", { key, value, session_id });
  const get = async (key: string) => (await it.call("config.get", { key, session_id })).value;
  const { value } = await set("model", "demo:demo");
  assert.equal(await get("model"), value);
  await set("reasoning", "high");
  assert.equal(await get("reasoning"), "high");
  await set("yolo", "");
  assert.equal(await get("yolo"), "1");
  await set("yolo", "off");
  assert.equal(await get("yolo"), "0");
  assert.equal((await set("cwd", "sub")).cwd, await get("cwd"));
  await set("title", "A name");
  assert.equal(await get("title"), "A name");
  for (const [key, bad] of [
    ["model", "no:such:model x"],
    ["reasoning", "wild"],
    ["yolo", "perhaps"],
    ["cwd", "nowhere"],
    ["title", ""],
  ] as const) {
    await assert.rejects(set(key, bad), withCode(4002), key);
  }
  await assert.rejects(it.call("config.set", { key: "title", value: "x" }), withCode(4002));
});

test("command.dispatch takes either command, or name and arg", async () => {
  await using it = await createTestDeps();
  const session_id = it.open();
  await assert.rejects(it.call("command.dispatch", {}), withCode(-32602));
  await assert.rejects(it.call("command.dispatch", { command: "/title", name: "title" }), withCode(-32602));
  await assert.rejects(it.call("command.dispatch", { command: " / " }), withCode(4004));
  await assert.rejects(it.call("command.dispatch", { command: "/nothing" }), withCode(4011));
  const one = await it.call("command.dispatch", { command: "/title One", session_id });
  const two = await it.call("command.dispatch", { name: "/title", arg: "Two", session_id });
  assert.deepEqual(
    [one, two],
    [
      { type: "exec", output: "Title: One" },
      { type: "exec", output: "Title: Two" },
    ],
  );
  assert.deepEqual(await it.call("command.dispatch", { command: "/hi" }), {
    type: "send",
    message: "Say hi",
  });
  assert.deepEqual(await it.call("slash.exec", { session_id, command: "title" }), { output: "Title: Two" });
  await assert.rejects(it.call("slash.exec", { session_id, command: "tidy" }), withCode(4018));
  await assert.rejects(it.call("slash.exec", { session_id, command: " " }), withCode(4004));
  assert.equal((await it.call("command.resolve", { name: "/fork" })).canonical, "branch");
});

test("the mapping's set_model is command.dispatch with the /model command", async () => {
  await using it = await createTestDeps();
  const session_id = it.open();
  await it.call("command.dispatch", { command: "/model demo:demo", session_id });
  assert.equal((await it.call("config.get", { key: "model", session_id })).value, "demo:demo");
  await assert.rejects(
    it.call("command.dispatch", { command: "/model no such", session_id }),
    withCode(4002),
  );
  assert.ok((await it.call("model.options", { session_id })).providers.some(({ slug }) => slug === "demo"));
});

test("the catalogue and completions agree", async () => {
  await using it = await createTestDeps();
  const { pairs, canon, sub, skill_count: skills } = await it.call("commands.catalog");
  assert.ok(pairs.some(([name]) => name === "/model"));
  assert.deepEqual([canon["/fork"], skills], ["/branch", 1]);
  assert.ok(sub["/reasoning"]?.includes("high"));
  const { items, replace_from: from } = await it.call("complete.slash", { text: "/mo" });
  assert.deepEqual([items[0]?.text, from], ["model", 1]);
  const low = await it.call("complete.slash", { text: "/reasoning lo" });
  assert.deepEqual([low.items.map(({ text }) => text), low.replace_from], [["low"], 11]);
});

test("complete.path shows at most 30 entries inside the roots, and nothing outside", async () => {
  await using it = await createTestDeps();
  await mkdir(join(it.workspace, "src"));
  await symlink("/", join(it.workspace, "out"));
  for (let n = 0; n < 40; n++) await writeFile(join(it.workspace, `file${n}`), "");
  assert.equal((await it.call("complete.path", { word: "file" })).items.length, 30);
  assert.deepEqual((await it.call("complete.path", { word: "./sr" })).items[0]?.text, "./src/");
  for (const word of ["/", "out/", "/etc/pa", "\0", "../../../../etc/"]) {
    assert.deepEqual((await it.call("complete.path", { word })).items, [], word);
  }
  assert.deepEqual((await it.call("complete.path", { word: "", cwd: "/etc" })).items, []);
  assert.deepEqual((await it.call("complete.path", { word: "", cwd: "src\0" })).items, []);
  assert.ok((await it.call("complete.path", { word: "~/wo" })).items.length > 0);
});

test("complete.path shows hosts on other machines only the session's folder and the workspace", async () => {
  await using it = await createTestDeps();
  await mkdir(join(it.workspace, "src"));
  const far = it.as({ isLocal: false, transport: "ws" });
  assert.equal((await it.call("complete.path", { word: "sr" }, far)).items.length, 1);
  for (const word of ["../", "~/", "/", "/tmp/"]) {
    assert.deepEqual((await it.call("complete.path", { word }, far)).items, [], word);
  }
});

test("hosts on other machines learn nothing about files outside the workspace", async () => {
  await using it = await createTestDeps();
  const session_id = it.open();
  const far = it.as({ isLocal: false, transport: "ws" });
  const outside = join(it.home, "secret.png");
  await writeFile(outside, Buffer.from(PNG, "base64"));
  await symlink(outside, join(it.workspace, "link.png"));
  for (const path of [outside, `${outside}x`, "../home/secret.png", "~/home/secret.png", "link.png"]) {
    await assert.rejects(it.call("image.attach", { session_id, path }, far), withCode(4030), path);
  }
  for (const text of [outside, "~/home/secret.png", "./link.png"]) {
    assert.deepEqual(await it.call("input.detect_drop", { session_id, text }, far), { matched: false }, text);
  }
  const near = await it.call("input.detect_drop", { session_id, text: outside });
  assert.deepEqual([near.matched, near.is_image], [true, true]);
});

test("cli.exec runs this program for local users, and refuses commands that never end", async () => {
  await using it = await createTestDeps();
  const done = await it.call("cli.exec", { argv: ["version"], timeout: 60 });
  assert.deepEqual([done.blocked, done.code], [false, 0], done.output);
  assert.match(done.output, /\d+\.\d+/);
  for (const argv of [["setup"], ["gateway"], ["rpc"], ["chat"], ["config", "edit"], ["--verbose"]]) {
    const { blocked, code, hint } = await it.call("cli.exec", { argv });
    assert.deepEqual([blocked, code], [true, -1]);
    assert.ok(hint);
  }
  const far = it.as({ isLocal: false, transport: "ws" });
  await assert.rejects(it.call("cli.exec", { argv: ["version"] }, far), withCode(4005));
  await assert.rejects(it.call("cli.exec", { argv: ["a\0b"] }), withCode(4003));
});

test("reload.mcp asks for a confirmation once, and not after always", async () => {
  await using it = await createTestDeps();
  assert.equal((await it.call("reload.mcp")).status, "confirm_required");
  assert.equal((await it.call("reload.mcp", { confirm: true })).status, "reloaded");
  assert.equal((await it.call("reload.mcp", { always: true })).status, "reloaded");
  assert.equal((await it.call("reload.mcp")).status, "reloaded");
  assert.deepEqual(await it.call("reload.env"), { updated: 3 });
});

test("the owner of a session sees and ends its processes", async () => {
  await using it = await createTestDeps();
  const { runId, sessionId } = await it.agent.submit("hello");
  await it.agent.events(runId);
  const start = () =>
    it.deps.processes.start({
      sessionId,
      command: "sleep 60",
      cwd: it.workspace,
      env: { PATH: "/usr/bin:/bin" },
    });
  const { id } = start();
  start();
  const stranger = it.as({ identity: { owner: "other", scopes: ["admin"] } });
  assert.deepEqual((await it.call("process.list", {}, stranger)).processes, []);
  await assert.rejects(it.call("process.kill", { process_id: id }, stranger), withCode(4044));
  assert.deepEqual(await it.call("process.stop", {}, stranger), { killed: 0 });
  assert.equal((await it.call("process.list")).processes.length, 2);
  assert.deepEqual(await it.call("process.kill", { process_id: id }), { killed: 1 });
  assert.deepEqual(await it.call("process.stop", { session_id: sessionId }), { killed: 1 });
});

test("spawn trees are saved, listed and loaded by their owner, and nothing outside the folder", async () => {
  await using it = await createTestDeps();
  const { path, session_id: id } = await it.call("spawn_tree.save", {
    subagents: [{ goal: "x" }],
    label: "L",
  });
  assert.equal(id, "default");
  const { entries } = await it.call("spawn_tree.list");
  assert.deepEqual([entries[0]?.path, entries[0]?.session_id, entries[0]?.count], [path, "default", 1]);
  assert.equal((await it.call("spawn_tree.list", { cross_session: true })).entries.length, 1);
  assert.deepEqual((await it.call("spawn_tree.load", { path })).subagents, [{ goal: "x" }]);
  const stranger = it.as({ identity: { owner: "other", scopes: ["admin"] } });
  await assert.rejects(it.call("spawn_tree.load", { path }, stranger), withCode(4016));
  assert.deepEqual((await it.call("spawn_tree.list", { cross_session: true }, stranger)).entries, []);
  await assert.rejects(it.call("spawn_tree.load", { path: "" }), withCode(4000));
  await assert.rejects(it.call("spawn_tree.load", { path: "../config.yaml" }), withCode(4030));
  await assert.rejects(it.call("spawn_tree.load", { path: "/etc/passwd" }), withCode(4030));
});

test("delegation.status is empty without sub-agents", async () => {
  await using it = await createTestDeps();
  assert.deepEqual(await it.call("delegation.status"), {
    active: [],
    paused: false,
    max_spawn_depth: 2,
    max_concurrent_children: 4,
  });
  await assert.rejects(it.call("subagent.interrupt", { subagent_id: "" }), withCode(4000));
  assert.deepEqual(await it.call("subagent.interrupt", { subagent_id: "x" }), {
    found: false,
    subagent_id: "x",
  });
});

test("an image is attached quoted, escaped, as a URL, and with text after it", async () => {
  await using it = await createTestDeps();
  const session_id = it.open();
  const path = join(it.workspace, "my pic.png");
  await writeFile(path, Buffer.from(PNG, "base64"));
  const typed = [
    [`"${path}" what is it`, "what is it"],
    [`${path.replaceAll(" ", "\\ ")} and this`, "and this"],
    [path, ""],
    [`file://${path.replaceAll(" ", "%20")}`, ""],
    ["'my pic.png'", ""],
  ] as const;
  for (const [text, remainder] of typed) {
    const done = await it.call("image.attach", { session_id, path: text });
    assert.deepEqual(
      [done.path, done.name, done.remainder, done.width],
      [path, "my pic.png", remainder, 1],
      text,
    );
  }
  assert.deepEqual(await it.call("image.detach", { session_id, path }), { detached: true, count: 0 });
  await writeFile(join(it.workspace, "a.txt"), "text");
  await assert.rejects(it.call("image.attach", { session_id, path: " " }), withCode(4015));
  for (const bad of ["none.png", "a.txt"]) {
    await assert.rejects(it.call("image.attach", { session_id, path: bad }), withCode(4016), bad);
  }
  for (const bad of ["/etc/passwd", "/etc/no-such-file"]) {
    await assert.rejects(it.call("image.attach", { session_id, path: bad }), withCode(4030), bad);
  }
  await assert.rejects(it.call("image.attach", { session_id: "none", path }), withCode(4001));
});

test("images are attached from bytes, drops and the clipboard", async () => {
  await using it = await createTestDeps();
  const session_id = it.open();
  const sent = await it.call("image.attach_bytes", { session_id, content_base64: PNG, filename: "../x.png" });
  assert.deepEqual([sent.attached, sent.path, sent.count], [true, "x.png", 1]);
  assert.equal((await it.call("image.attach_bytes", { session_id, data: PNG })).count, 2);
  await assert.rejects(it.call("image.attach_bytes", { session_id }), withCode(4015));
  await assert.rejects(it.call("image.attach_bytes", { session_id, data: "%%%" }), withCode(4017));
  await assert.rejects(it.call("image.attach_bytes", { session_id, data: "aGVsbG8=" }), withCode(4016));
  await assert.rejects(
    it.call("image.attach_bytes", { session_id, data: "A".repeat(15_000_000) }),
    withCode(4018),
  );
  const path = join(it.workspace, "p.png");
  await writeFile(path, Buffer.from(PNG, "base64"));
  const drop = await it.call("input.detect_drop", { session_id, text: `${path} look` });
  assert.deepEqual([drop.matched, drop.is_image, drop.text, drop.count], [true, true, "look", 3]);
  assert.deepEqual(await it.call("input.detect_drop", { session_id, text: "what is /etc?" }), {
    matched: false,
  });
  assert.equal((await it.call("clipboard.paste", { session_id })).attached, false);
  assert.deepEqual(await it.call("terminal.resize", { session_id, cols: 120 }), { cols: 120 });
});
