import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { AcpClient } from "../../harness/acp.ts";
import { sharedAcpPlaces } from "../../harness/acp-shared.ts";
import { history, load, opened, refused } from "../../harness/acp-sessions.ts";
import { calling, saying } from "../../harness/openai-server.ts";

const sharedPlace = sharedAcpPlaces();

function fork({ agent }: AcpClient, sessionId: string, cwd: string) {
  return agent.request("session/fork", { sessionId, cwd, mcpServers: [] });
}

test("a fork copies the complete messages, the model and the mode without replay, and the parent continues alone", async () => {
  const waits = { id: "c1", name: "terminal", json: JSON.stringify({ command: UNTIL_GO }) };
  await using place = await sharedPlace({
    replies: ({ body }) => {
      const last = body.messages.at(-1);
      if (String(last?.["content"]) === "wait") return calling(waits);
      return saying(`said ${body.messages.length}`);
    },
  });
  const client = await place.start().client();
  const parent = await client.session(place.folder);
  await client.agent.request("session/set_mode", { sessionId: parent, modeId: "accept_edits" });
  const model = { configId: "model", value: "local:other-model" };
  await client.agent.request("session/set_config_option", { sessionId: parent, ...model });
  await client.prompt(parent, "one");
  const turn = client.prompt(parent, "wait");
  await client.until(() => client.updates("tool_call", parent)[0]);

  const other = join(place.base, "other");
  await mkdir(other);
  const answer = await fork(client, parent, other);
  const { sessionId: branch } = answer;
  assert.notEqual(branch, parent);
  assert.equal(answer.modes?.currentModeId, "accept_edits");
  const chosen = answer.configOptions?.find(({ id }) => id === "model");
  assert.equal(chosen?.type === "select" && chosen.currentValue, "local:other-model");
  await opened(client, branch);
  assert.deepEqual(history(client, branch), []);
  await client.prompt(branch, "two");
  const asked = place.models?.requests.at(-1)?.body;
  assert.equal(asked?.model, "other-model");
  assert.deepEqual(
    asked?.messages.slice(1).map(({ content }) => String(content)),
    ["one", "said 2", "two"],
  );
  assert.ok(JSON.stringify(asked?.messages[0]).includes(other), "it works in its own folder");

  await writeFile(join(place.folder, "go"), "");
  assert.equal((await turn).stopReason, "end_turn");
  const viewer = await place.start().client();
  await load(viewer, branch, other);
  assert.deepEqual(
    viewer
      .updates("user_message_chunk", branch)
      .map(({ content }) => (content.type === "text" ? content.text : "")),
    ["one", "two"],
  );
});

test("a fork of a session without messages is an empty session with the same mode", async () => {
  await using place = await sharedPlace({ replies: [saying("ok")] });
  const client = await place.start().client();
  const parent = await client.session(place.folder);
  for (const mode of [undefined, "plan"]) {
    // With a choice the session is saved, without one it is not.
    if (mode) await client.agent.request("session/set_mode", { sessionId: parent, modeId: mode });
    const { sessionId, modes } = await fork(client, parent, place.folder);
    assert.notEqual(sessionId, parent);
    assert.equal(modes?.currentModeId, mode ?? "ask");
    await client.agent.request("session/close", { sessionId });
  }
  const { sessionId } = await fork(client, parent, place.folder);
  assert.equal((await client.prompt(sessionId, "hello")).stopReason, "end_turn");
});

test("a fork without a folder works in the folder of its parent", async () => {
  await using place = await sharedPlace();
  const client = await place.start().client();
  const parent = await client.session(place.folder);
  await client.prompt(parent, "hello");
  const forked = await client.agent.request<{ sessionId: string }>("session/fork", { sessionId: parent });
  const { sessions } = await client.agent.request("session/list", {});
  assert.equal(sessions.find(({ sessionId }) => sessionId === forked.sessionId)?.cwd, place.folder);
});

test("a fork with an invalid folder or MCP server fails and creates no session", async () => {
  await using place = await sharedPlace();
  const client = await place.start().client();
  const parent = await client.session(place.folder);
  await client.prompt(parent, "hello");
  await refused(fork(client, parent, "relative"), -32_602);
  const unsupported = { type: "acp" as const, name: "own", serverId: "1" };
  const params = { sessionId: parent, cwd: place.folder, mcpServers: [unsupported] };
  await refused(client.agent.request("session/fork", params), -32_602);
  const { sessions } = await client.agent.request("session/list", {});
  assert.deepEqual(
    sessions.map(({ sessionId }) => sessionId),
    [parent],
  );
});

const UNTIL_GO = "until [ -e go ]; do sleep 0.05; done";
