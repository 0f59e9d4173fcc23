import assert from "node:assert/strict";
import { test } from "node:test";
import { choose, createAcpPlace, type AcpClient } from "../../harness/acp.ts";
import { sharedAcpPlaces } from "../../harness/acp-shared.ts";

const sharedPlace = sharedAcpPlaces();

const config = "approvals: { mode: always_ask }\n";
const command = "run: echo hello >> made.txt";

/** How often leave was asked for in a session. */
const questions = (editor: AcpClient, sessionId: string): number =>
  editor.seen.filter((each) => each.kind === "permission" && each.request.sessionId === sessionId).length;

test("allow_session covers the same command in its session, and no other command or session", async () => {
  await using place = await sharedPlace({ config });
  const editor = await place
    .start()
    .client({ permission: () => ({ outcome: { outcome: "selected", optionId: "allow_session" } }) });
  const [one, other] = [await editor.session(place.folder), await editor.session(place.folder)];
  for (let run = 1; run <= 3; run++) await editor.prompt(one, command);
  assert.equal(questions(editor, one), 1);
  await editor.prompt(one, "run: echo other >> made.txt");
  assert.equal(questions(editor, one), 2);
  for (let run = 1; run <= 2; run++) await editor.prompt(other, command);
  assert.equal(questions(editor, other), 1);
});

test("a session grant does not apply to a concurrent session", async () => {
  await using place = await sharedPlace({ config });
  const held = Promise.withResolvers<void>();
  const editor = await place.start().client({
    permission: async ({ sessionId }) => {
      if (sessionId !== one) await held.promise;
      return { outcome: { outcome: "selected", optionId: sessionId === one ? "allow_session" : "deny" } };
    },
  });
  const [one, other] = [await editor.session(place.folder), await editor.session(place.folder)];
  const waits = editor.prompt(other, command);
  await editor.until(() => questions(editor, other) || undefined);
  // Leave is given in one session while the same question is open in the other.
  await editor.prompt(one, command);
  await editor.prompt(one, command);
  assert.equal(questions(editor, one), 1);
  held.resolve();
  await waits;
  await editor.prompt(other, command);
  assert.equal(questions(editor, other), 2);
  const failed = editor.updates("tool_call_update", other).filter(({ status }) => status === "failed");
  assert.equal(failed.length, 2);
});

test("allow_always persists across a restart", async () => {
  await using place = await createAcpPlace({ config });
  const first = place.start();
  const before = await first.client({
    permission: () => ({ outcome: { outcome: "selected", optionId: "allow_always" } }),
  });
  const one = await before.session(place.folder);
  for (let run = 1; run <= 2; run++) await before.prompt(one, command);
  assert.equal(questions(before, one), 1);
  first.child.stdin?.end();
  await first.exited;
  const after = await place.start().client();
  const other = await after.session(place.folder);
  assert.equal((await after.prompt(other, command)).stopReason, "end_turn");
  assert.equal(questions(after, other), 0);
  assert.ok(after.updates("tool_call_update", other).some(({ status }) => status === "completed"));
});

test("allow_once ends with the call, and allow_session ends with the process", async () => {
  await using place = await sharedPlace({ config });
  const first = place.start();
  const answers = ["allow_once", "allow_once", "allow_session"];
  const before = await first.client({
    permission: () => ({ outcome: { outcome: "selected", optionId: answers.shift() ?? "deny" } }),
  });
  const sessionId = await before.session(place.folder);
  for (let run = 1; run <= 4; run++) await before.prompt(sessionId, command);
  assert.equal(questions(before, sessionId), 3);
  first.child.stdin?.end();
  await first.exited;
  const after = await place.start().client({ permission: choose("allow_once") });
  await after.agent.request("session/resume", { sessionId, cwd: place.folder, mcpServers: [] });
  await after.prompt(sessionId, command);
  assert.equal(questions(after, sessionId), 1);
});

test("deny_session denies the same command again without asking, in its session only, even for a command that can only be allowed once", async () => {
  await using place = await sharedPlace({ config });
  const options: string[] = [];
  const editor = await place.start().client({
    permission: (request) => {
      options.push(request.options.map(({ optionId }) => optionId).join(" "));
      return { outcome: { outcome: "selected", optionId: "deny_session" } };
    },
  });
  const risky = "run: rm -rf ./work";
  const [one, other] = [await editor.session(place.folder), await editor.session(place.folder)];
  for (let run = 1; run <= 3; run++) await editor.prompt(one, risky);
  assert.equal(questions(editor, one), 1);
  assert.deepEqual(options, ["allow_once deny deny_session"]);
  const ends = editor.updates("tool_call_update", one).filter(({ status }) => status === "failed");
  assert.equal(ends.length, 3);
  for (const { content } of ends) assert.match(JSON.stringify(content), /denied by user/);
  await editor.prompt(one, command);
  assert.equal(questions(editor, one), 2);
  await editor.prompt(other, risky);
  assert.equal(questions(editor, other), 1);
});
