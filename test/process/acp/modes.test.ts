import assert from "node:assert/strict";
import { access, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { choose, createAcpPlace, type AcpClient } from "../../harness/acp.ts";
import { calling, saying } from "../../harness/openai-server.ts";

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
  await using place = await createAcpPlace({
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
  await inMode(editor, sessionId, "ask");
  await editor.prompt(sessionId, "now make it");
  assert.equal(await readFile(join(place.folder, "made.txt"), "utf8"), "made");
});

test("accept_edits writes files in the session's folder without approval and requires it for commands and other paths", async () => {
  await using place = await createAcpPlace({ config: strict });
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
  await using place = await createAcpPlace({ config: strict });
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
  await using place = await createAcpPlace({
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
