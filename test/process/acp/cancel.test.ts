import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "node:test";
import { choose, type AcpClient, type AcpProcess } from "../../harness/acp.ts";
import { sharedAcpPlaces } from "../../harness/acp-shared.ts";
import { calling, saying, type ModelReply } from "../../harness/openai-server.ts";
import { isAlive } from "../../unit/agent/mcp/fixture.ts";

const sharedPlace = sharedAcpPlaces();

/** Less than a turn takes that is not cancelled, and more than a busy machine needs. */
const PATIENCE_MS = 60_000;

const endless: ModelReply = { pieces: [{ text: "Once upon a time" }, { hang: true }] };
const terminal = (command: string) => ({ id: "call_1", name: "terminal", json: JSON.stringify({ command }) });

test("a cancel during streaming ends the prompt once as cancelled, and no update follows", async () => {
  await using place = await sharedPlace({ replies: [endless, saying("still here")] });
  const agentd = place.start();
  const editor = await agentd.client();
  const sessionId = await editor.session(place.folder);
  const prompt = editor.prompt(sessionId, "tell me a story");
  await said(editor, "Once upon a time");
  const answer = await cancelled(editor, sessionId, prompt);
  assert.equal(answer.stopReason, "cancelled");
  const lines = agentd.lines.length;
  await place.models?.requests[0]?.closed;
  await answered(editor);
  assert.deepEqual(turnUpdates(agentd.lines.slice(lines)), []);
  assert.equal(answersOf(agentd).length, 1);
  assert.equal((await editor.prompt(sessionId, "and now?")).stopReason, "end_turn");
  assert.match(editor.text(), /still here$/);
});

test("a cancel while a tool stops slowly fails the open call, ends the prompt, and the next prompt works", async () => {
  await using place = await sharedPlace({
    replies: [
      calling(terminal("trap '' TERM; echo up; echo $$ > begun; sleep 300; touch over")),
      saying("still here"),
    ],
  });
  const agentd = place.start();
  const editor = await agentd.client({ permission: choose("allow_once") });
  const sessionId = await editor.session(place.folder);
  const prompt = editor.prompt(sessionId, "work");
  const shell = await pidIn(join(place.folder, "begun"));
  // A call that the editor has not heard of when it cancels is not told any more.
  await editor.until(() => editor.updates("tool_call").at(-1));
  const answer = await cancelled(editor, sessionId, prompt);
  assert.equal(answer.stopReason, "cancelled");
  const end = editor.updates("tool_call_update").at(-1);
  assert.equal(end?.status, "failed");
  assert.match(JSON.stringify(end?.content), /cancelled/);
  const lines = agentd.lines.length;
  await until(() => !isAlive(shell));
  await answered(editor);
  assert.deepEqual(turnUpdates(agentd.lines.slice(lines)), []);
  assert.equal((await editor.prompt(sessionId, "and now?")).stopReason, "end_turn");
  assert.match(editor.text(), /still here$/);
  assert.ok(!existsSync(join(place.folder, "over")));
});

test("a cancel sent right after the prompt takes effect", async () => {
  await using place = await sharedPlace({ replies: [endless, endless, endless, saying("still here")] });
  const agentd = place.start();
  const editor = await agentd.client();
  const sessionId = await editor.session(place.folder);
  for (let each = 0; each < 3; each++) {
    const prompt = editor.prompt(sessionId, "tell me a story");
    await editor.agent.notify("session/cancel", { sessionId });
    assert.equal((await within(prompt)).stopReason, "cancelled");
  }
  const asked = place.models?.requests.length ?? 0;
  assert.ok(asked <= 3);
});

test("a turn stopped by `/stop` ends as cancelled", async () => {
  await using place = await sharedPlace({ replies: [endless] });
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  const prompt = editor.prompt(sessionId, "tell me a story");
  await said(editor, "Once upon a time");
  assert.equal((await within(editor.prompt(sessionId, "/stop"))).stopReason, "end_turn");
  assert.equal((await within(prompt)).stopReason, "cancelled");
});

test("repeated, idle and unknown-session cancels do not affect the next prompt, and interrupt a tool once", async () => {
  const toolName = "cancel-marker";
  await using place = await sharedPlace({
    replies: [
      calling(terminal("trap 'echo stop >> stops; exit' TERM; touch begun; sleep 300 & wait")),
      saying(`one ${toolName}`),
      saying("two"),
    ],
  });
  const editor = await place.start().client({ permission: choose("allow_once") });
  const sessionId = await editor.session(place.folder);
  await editor.agent.notify("session/cancel", { sessionId });
  await editor.agent.notify("session/cancel", { sessionId: "20200101_000000_000000000000" });
  const prompt = editor.prompt(sessionId, "work");
  await until(() => existsSync(join(place.folder, "begun")));
  for (let each = 0; each < 5; each++) await editor.agent.notify("session/cancel", { sessionId });
  assert.equal((await within(prompt)).stopReason, "cancelled");
  await editor.agent.notify("session/cancel", { sessionId });
  await editor.agent.notify("session/cancel", { sessionId: "20200101_000000_000000000000" });
  assert.equal((await editor.prompt(sessionId, "next")).stopReason, "end_turn");
  assert.equal((await editor.prompt(sessionId, "next")).stopReason, "end_turn");
  assert.match(editor.text(), /two$/);
  assert.equal(await readFile(join(place.folder, "stops"), "utf8"), "stop\n");
});

test("$/cancel_request on session/prompt ends it as cancelled, and the connection stays usable", async () => {
  await using place = await sharedPlace({ replies: [endless, saying("still here")] });
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  const withdrawn = new AbortController();
  const prompt = editor.agent.request(
    "session/prompt",
    { sessionId, prompt: [{ type: "text", text: "tell me a story" }] },
    { cancellationSignal: withdrawn.signal },
  );
  await said(editor, "Once upon a time");
  withdrawn.abort();
  assert.equal((await within(prompt)).stopReason, "cancelled");
  assert.equal((await editor.prompt(sessionId, "and now?")).stopReason, "end_turn");
  assert.match(editor.text(), /still here$/);
});

test("$/cancel_request on session/load answers -32800, and the connection stays usable", async () => {
  await using place = await sharedPlace({ replies: [saying("one"), saying("two")] });
  const agentd = place.start();
  const editor = await agentd.client();
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "first");
  agentd.write(
    [
      {
        jsonrpc: "2.0",
        id: "load",
        method: "session/load",
        params: { sessionId, cwd: place.folder, mcpServers: [] },
      },
      { jsonrpc: "2.0", method: "$/cancel_request", params: { requestId: "load" } },
    ]
      .map((line) => `${JSON.stringify(line)}\n`)
      .join(""),
  );
  const answer = await within(agentd.answer("load"));
  assert.equal((answer["error"] as { code: number } | undefined)?.code, -32_800);
  assert.equal((await editor.prompt(sessionId, "second")).stopReason, "end_turn");
});

async function cancelled<T>(editor: AcpClient, sessionId: string, prompt: Promise<T>): Promise<T> {
  await editor.agent.notify("session/cancel", { sessionId });
  return within(prompt);
}

/** Fails when it does not come. */
async function within<T>(wanted: Promise<T>): Promise<T> {
  const late = sleep(PATIENCE_MS, undefined, { ref: false }).then(() => {
    throw new Error(`no answer within ${PATIENCE_MS} ms`);
  });
  return Promise.race([wanted, late]);
}

/** Resolves when the program has answered a request: what it sent before is there then. */
async function answered(editor: AcpClient): Promise<void> {
  await editor.agent.request("session/list", {});
}

/** The process id that a command writes to this file. */
async function pidIn(file: string): Promise<number> {
  for (;;) {
    const pid = Number(await readFile(file, "utf8").catch(() => ""));
    if (pid > 0) return pid;
    await sleep(20);
  }
}

function said(editor: AcpClient, text: string): Promise<true> {
  return editor.until(() => editor.text().includes(text) || undefined);
}

async function until(look: () => boolean): Promise<void> {
  while (!look()) await sleep(20);
}

/** Titles and choices belong to the session, and may come whenever. */
const OF_THE_SESSION = new Set(["session_info_update", "available_commands_update", "config_option_update"]);

function turnUpdates(lines: AcpProcess["lines"]): readonly unknown[] {
  return lines.filter((line) => {
    const { update } = (line["params"] ?? {}) as { readonly update?: { readonly sessionUpdate: string } };
    return update && !OF_THE_SESSION.has(update.sessionUpdate);
  });
}

function answersOf({ lines }: AcpProcess): readonly unknown[] {
  return lines.filter((line) => (line["result"] as { readonly stopReason?: string } | undefined)?.stopReason);
}
