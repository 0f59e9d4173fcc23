import assert from "node:assert/strict";
import { access, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { choose, type AcpClient } from "../../harness/acp.ts";
import { sharedAcpPlaces } from "../../harness/acp-shared.ts";
import { load, saveConversations, storeOf } from "../../harness/acp-sessions.ts";
import { calling, saying, type ModelRequest, type Replies } from "../../harness/openai-server.ts";

const sharedPlace = sharedAcpPlaces();

const writing = (path: string) =>
  calling({ id: `call_${path}`, name: "write_file", json: JSON.stringify({ path, content: "made" }) });

const strict = "approvals: { mode: always_ask }\n";

const exists = async (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

const asked = (editor: AcpClient) =>
  editor.seen.flatMap((each) => (each.kind === "permission" ? [each.request.toolCall.title ?? ""] : []));

const statuses = (editor: AcpClient) =>
  editor
    .updates("tool_call_update")
    .flatMap(({ status }) => (status === "completed" || status === "failed" ? [status] : []));

const inMode = (editor: AcpClient, sessionId: string, modeId: string) =>
  editor.agent.request("session/set_mode", { sessionId, modeId });

test("plan mode refuses an edit and instructs the model to present a plan, and another mode makes the edit", async () => {
  await using place = await sharedPlace({
    config: "approvals: { mode: yolo }\n",
    replies: ({ body }) =>
      body.messages.at(-1)?.["role"] === "tool" ? saying("Here is my plan.") : writing("made.txt"),
  });
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  await inMode(editor, sessionId, "plan");
  assert.equal((await editor.prompt(sessionId, "make it")).stopReason, "end_turn");
  assert.equal(editor.text(), "Here is my plan.");
  assert.deepEqual(statuses(editor), ["failed"]);
  const [first, second] = place.models?.requests ?? [];
  assert.match(JSON.stringify(first?.body.messages[0]), /You are in plan mode/);
  assert.match(JSON.stringify(second?.body.messages.at(-1)), /plan mode.*present a plan/);
  assert.equal(await exists(join(place.folder, "made.txt")), false);
  await inMode(editor, sessionId, "accept_edits");
  await editor.prompt(sessionId, "now make it");
  assert.equal(await readFile(join(place.folder, "made.txt"), "utf8"), "made");
});

const presenting: Replies = ({ body }) => {
  const last = body.messages.at(-1);
  const text = String(last?.["content"]);
  if (last?.["role"] !== "tool")
    return calling({ id: "plan_1", name: "present_plan", json: '{"plan":"1. Write made.txt"}' });
  if (!/approved the plan\. The session/.test(text)) return saying(`I heard: ${text}`);
  return calling({ id: "write_1", name: "write_file", json: '{"path":"made.txt","content":"made\\n"}' });
};

for (const [optionId, mode] of [
  ["choice_1", "accept_edits"],
  ["choice_2", "ask"],
] as const) {
  test(`a plan approved with ${optionId} switches to ${mode}, and the agent carries it out in the same turn`, async () => {
    let written = false;
    await using place = await sharedPlace({
      replies: (request, index) => {
        if (written) return saying("done");
        const reply = presenting(request, index);
        written = JSON.stringify(reply).includes("write_file");
        return reply;
      },
    });
    const editor = await place.start().client({
      capabilities: { elicitation: { form: {} } },
      permission: ({ toolCall }) => ({
        outcome: { outcome: "selected", optionId: toolCall.kind === "switch_mode" ? optionId : "allow_once" },
      }),
    });
    const sessionId = await editor.session(place.folder);
    await editor.agent.request("session/set_mode", { sessionId, modeId: "plan" });
    assert.equal((await editor.prompt(sessionId, "make a file")).stopReason, "end_turn");
    const [plan, edit] = editor.seen.flatMap((each) => (each.kind === "permission" ? [each.request] : []));
    assert.equal(plan?.toolCall.kind, "switch_mode");
    assert.match(JSON.stringify(plan?.toolCall.content), /1\. Write made\.txt/);
    assert.deepEqual(
      plan?.options.map(({ kind, name }) => [kind, name]),
      [
        ["allow_always", "Yes, and accept edits"],
        ["allow_once", "Yes, and ask before edits"],
        ["reject_once", "No, keep planning"],
      ],
    );
    assert.equal(edit?.toolCall.kind, mode === "ask" ? "edit" : undefined);
    assert.equal(await readFile(join(place.folder, "made.txt"), "utf8"), "made\n");
    assert.equal(editor.updates("current_mode_update").at(-1)?.currentModeId, mode);
  });
}

test("a plan that is not approved leaves the session in plan mode, and only sessions in plan mode can present one", async () => {
  await using place = await sharedPlace({ replies: presenting });
  const editor = await place.start().client({
    permission: () => ({ outcome: { outcome: "selected", optionId: "choice_3" } }),
  });
  const sessionId = await editor.session(place.folder);
  await editor.agent.request("session/set_mode", { sessionId, modeId: "plan" });
  await editor.prompt(sessionId, "make a file");
  assert.match(editor.text(), /I heard: The user did not approve the plan\. Stay in plan mode\./);
  assert.ok(tools(place.models?.requests[0]).includes("present_plan"));
  await editor.agent.request("session/set_mode", { sessionId, modeId: "ask" });
  await editor.prompt(sessionId, "make a file");
  assert.ok(!tools(place.models?.requests[2]).includes("present_plan"));
});

test("accept_edits writes files in the session's folder without approval and requires it for commands and other paths", async () => {
  await using place = await sharedPlace({ config: strict });
  const editor = await place.start().client({ permission: choose("reject_once") });
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "write a.txt: one");
  assert.equal(asked(editor).length, 1);
  await inMode(editor, sessionId, "accept_edits");
  await editor.prompt(sessionId, "write a.txt: two");
  assert.equal(await readFile(join(place.folder, "a.txt"), "utf8"), "two");
  assert.equal(asked(editor).length, 1);
  await editor.prompt(sessionId, "run: touch made.txt");
  await editor.prompt(sessionId, "write ../beside.txt: three");
  assert.equal(asked(editor).length, 3);
  assert.equal(await exists(join(place.folder, "made.txt")), false);
});

test("dont_ask runs commands without approval and requires it for sensitive paths", async () => {
  await using place = await sharedPlace({ config: strict });
  await writeFile(join(place.folder, ".env"), "KEY=hidden-in-a-file");
  const editor = await place.start().client({ permission: choose("reject_once") });
  const sessionId = await editor.session(place.folder);
  await inMode(editor, sessionId, "dont_ask");
  await editor.prompt(sessionId, "run: rm -rf build && touch made.txt");
  assert.ok(await exists(join(place.folder, "made.txt")));
  assert.deepEqual(asked(editor), []);
  await editor.prompt(sessionId, "read: .env");
  await editor.prompt(sessionId, "write .env: KEY=other");
  await editor.prompt(sessionId, "run: cat .env");
  assert.equal(asked(editor).length, 3);
  assert.doesNotMatch(editor.text(), /hidden-in-a-file/);
  assert.equal(await readFile(join(place.folder, ".env"), "utf8"), "KEY=hidden-in-a-file");
});

test("a mode selected during a turn applies from its next tool call", async () => {
  await using place = await sharedPlace({
    config: strict,
    replies: [writing("a"), writing("b"), saying("done")],
  });
  const editor = await place.start().client({
    // The mode is chosen while the question for the first call is open.
    permission: async (request, signal) => {
      await inMode(editor, request.sessionId, "accept_edits");
      return choose("allow_once")(request, signal);
    },
  });
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "make both");
  assert.equal(asked(editor).length, 1);
  assert.deepEqual(statuses(editor), ["completed", "completed"]);
});

test("a new session is in mode ask, where each edit waits for approval with its diff, also in /tmp", async () => {
  await using place = await sharedPlace();
  await writeFile(join(place.folder, "a.txt"), "one\n");
  const editor = await place.start().client({ permission: choose("reject_once") });
  const { sessionId, modes } = await editor.agent.request("session/new", {
    cwd: place.folder,
    mcpServers: [],
  });
  assert.equal(modes?.currentModeId, "ask");
  await editor.prompt(sessionId, "write a.txt: two");
  const [request] = editor.seen.flatMap((each) => (each.kind === "permission" ? [each.request] : []));
  const diff = request?.toolCall.content?.find(({ type }) => type === "diff");
  assert.ok(diff?.type === "diff");
  assert.deepEqual([diff.path, diff.oldText, diff.newText], [join(place.folder, "a.txt"), "one\n", "two"]);
  assert.deepEqual(
    request?.options.map(({ optionId, name }) => [optionId, name]),
    [
      ["allow_once", "Allow once"],
      ["allow_session", `Allow \`edits in ${place.folder}\` for this session`],
      ["deny", "Deny"],
      ["deny_session", `Deny \`edits in ${place.folder}\` for this session`],
    ],
  );
  const beside = join(place.base, "beside.txt");
  await editor.prompt(sessionId, `write ${beside}: three`);
  assert.equal(asked(editor).length, 2);
  assert.equal(await readFile(join(place.folder, "a.txt"), "utf8"), "one\n");
  assert.equal(await exists(beside), false);
  await editor.prompt(sessionId, "run: echo free");
  assert.equal(asked(editor).length, 2, "a harmless command does not ask");
});

test("mode ask survives a reload, and approval of edits for the session ends with its folder and its process", async () => {
  await using place = await sharedPlace();
  const first = place.start();
  const editor = await first.client({ permission: choose("allow_always") });
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "write a.txt: one");
  await editor.prompt(sessionId, "write b.txt: two");
  assert.equal(asked(editor).length, 1);
  await editor.prompt(sessionId, "write ../beside.txt: three");
  assert.equal(asked(editor).length, 2);
  first.child.stdin?.end();
  await first.exited;
  const again = await place.start().client({ permission: choose("reject_once") });
  const { modes } = await load(again, sessionId, place.folder);
  const fork = await again.agent.request("session/fork", { sessionId, cwd: place.folder, mcpServers: [] });
  assert.deepEqual([modes?.currentModeId, fork.modes?.currentModeId], ["ask", "ask"]);
  for (const id of [sessionId, fork.sessionId]) {
    const before = asked(again).length;
    await again.prompt(id, "write c.txt: four");
    assert.equal(asked(again).length, before + 1);
  }
  assert.equal(await exists(join(place.folder, "c.txt")), false);
});

test("a session of another surface without a chosen mode shows accept_edits and edits without asking", async () => {
  await using place = await sharedPlace();
  {
    await using store = await storeOf(place);
    await saveConversations(store, [
      { id: "theirs", source: "tui", cwd: place.folder, messages: [{ role: "user", text: "hello" }] },
    ]);
  }
  const editor = await place.start().client({ permission: choose("reject_once") });
  const { modes } = await load(editor, "theirs", place.folder);
  assert.equal(modes?.currentModeId, "accept_edits");
  await editor.prompt("theirs", "write a.txt: one");
  assert.deepEqual(asked(editor), []);
  await inMode(editor, "theirs", "ask");
  await editor.prompt("theirs", "write a.txt: two");
  assert.equal(asked(editor).length, 1);
  assert.equal(await readFile(join(place.folder, "a.txt"), "utf8"), "one");
});

const modesShown = (editor: AcpClient) =>
  editor.updates("current_mode_update").map(({ currentModeId }) => currentModeId);

test("a client without boolean options shows no approvals as the mode, and choosing a mode switches approvals on", async () => {
  await using place = await sharedPlace();
  const editor = await place.start().client({ permission: choose("reject_once") });
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "/yolo on");
  await editor.until(() => modesShown(editor)[0]);
  assert.deepEqual(modesShown(editor), ["yolo"]);
  const options = editor.updates("config_option_update").at(-1)?.configOptions ?? [];
  const mode = options.find(({ id }) => id === "mode");
  assert.equal(mode?.currentValue, "yolo");
  assert.ok(mode?.type === "select" && JSON.stringify(mode.options).includes("No approvals"));
  await editor.prompt(sessionId, "write a.txt: one");
  assert.deepEqual(asked(editor), []);
  await inMode(editor, sessionId, "yolo");
  await inMode(editor, sessionId, "ask");
  await editor.until(() => modesShown(editor)[1]);
  assert.deepEqual(modesShown(editor), ["yolo", "ask"]);
  await editor.prompt(sessionId, "write a.txt: two");
  assert.equal(asked(editor).length, 1);
  assert.equal(await readFile(join(place.folder, "a.txt"), "utf8"), "one");
  await editor.prompt(sessionId, "/yolo on global");
  await editor.until(() => modesShown(editor)[2]);
  await editor.prompt(sessionId, "/yolo off global");
  await editor.until(() => modesShown(editor)[3]);
  assert.deepEqual(modesShown(editor).slice(2), ["yolo", "ask"]);
});

test("a client with boolean options keeps the mode and the switch apart", async () => {
  await using place = await sharedPlace();
  const editor = await place.start().client({
    capabilities: { session: { configOptions: { boolean: {} } } } as never,
    permission: choose("reject_once"),
  });
  const sessionId = await editor.session(place.folder);
  await editor.agent.request("session/set_config_option", {
    sessionId,
    configId: "yolo",
    type: "boolean",
    value: true,
  } as never);
  await inMode(editor, sessionId, "ask");
  await editor.until(() => modesShown(editor)[0]);
  const options = editor.updates("config_option_update").at(-1)?.configOptions ?? [];
  const valueOf = (name: string) => options.find(({ id }) => id === name)?.currentValue;
  assert.deepEqual([valueOf("mode"), valueOf("yolo"), ...modesShown(editor)], ["ask", true, "ask"]);
});

test("a client sees that the configuration switches approvals off", async () => {
  await using place = await sharedPlace({ config: "approvals: { mode: yolo }\n" });
  const editor = await place.start().client();
  const { modes } = await editor.agent.request("session/new", { cwd: place.folder, mcpServers: [] });
  assert.equal(modes?.currentModeId, "yolo");
});

test("switching approvals back on applies to the turn that runs", async () => {
  await using place = await sharedPlace({
    replies: [calling(terminal("rm -rf one")), calling(terminal("rm -rf two")), saying("done")],
  });
  const editor = await place.start().client({
    permission: async (request, signal) => {
      // Approvals are off for the rest, and back on before the answer arrives.
      await editor.prompt(request.sessionId, "/yolo on");
      await editor.prompt(request.sessionId, "/yolo off");
      return choose("allow_once")(request, signal);
    },
  });
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "clean up");
  assert.equal(asked(editor).length, 2);
});

test("a command that ends with another exit code than 0 is failed, live and replayed, and keeps its output", async () => {
  await using place = await sharedPlace({
    replies: [calling(terminal("echo before; exit 3")), calling(terminal("echo fine")), saying("done")],
  });
  const editor = await place.start().client({ permission: choose("allow_once") });
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "try");
  assert.deepEqual(statuses(editor), ["failed", "completed"]);
  const failed = editor.updates("tool_call_update").find(({ status }) => status === "failed");
  assert.match(JSON.stringify(failed?.content), /Exit code 3.*before/);
  assert.deepEqual(
    (({ code, exitCode, status }) => [code, exitCode, status])(failed?.rawOutput as Record<string, unknown>),
    ["command_failed", 3, "ok"],
  );
  const again = await place.start().client();
  await load(again, sessionId, place.folder);
  assert.deepEqual(
    again.updates("tool_call").map(({ status }) => status),
    ["failed", "completed"],
  );
});

const terminal = (command: string) => ({
  id: `call_${command}`,
  name: "terminal",
  json: JSON.stringify({ command }),
});

const tools = (request: ModelRequest | undefined): readonly unknown[] =>
  (request?.body.tools ?? []).map((tool) => tool.function["name"]);
