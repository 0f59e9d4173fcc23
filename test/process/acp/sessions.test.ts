import assert from "node:assert/strict";
import { mkdir, realpath, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { choose, type AcpClient } from "../../harness/acp.ts";
import { sharedAcpPlaces } from "../../harness/acp-shared.ts";
import {
  history,
  load,
  opened,
  refused,
  resume,
  saveConversations,
  storeOf,
} from "../../harness/acp-sessions.ts";
import { saying } from "../../harness/openai-server.ts";

const sharedPlace = sharedAcpPlaces();

test("session/new answers -32602 for an invalid cwd, additional directory or MCP server", async () => {
  await using place = await sharedPlace();
  const process = place.start();
  const client = await process.client();
  const file = join(place.folder, "file");
  await writeFile(file, "");
  const begin = (params: { cwd: string; additionalDirectories?: string[]; mcpServers?: unknown[] }) =>
    client.agent.request("session/new", { mcpServers: [], ...params } as never);
  for (const cwd of ["work", "./work", "", join(place.folder, "missing"), file, `${place.folder}\0`]) {
    const { data, message } = await refused(begin({ cwd }), -32_602);
    assert.deepEqual(data, { param: "cwd" });
    assert.match(message, /cwd/);
  }
  const cwd = place.folder;
  for (const additionalDirectories of [["work"], [file], [cwd, join(cwd, "missing")]]) {
    await refused(begin({ cwd, additionalDirectories }), -32_602);
  }
  const unsupported = { type: "acp", name: "own", serverId: "1" };
  for (const server of [
    { name: "a", command: "true", env: [] },
    { name: "a", command: "true", args: [] },
    unsupported,
  ]) {
    await refused(begin({ cwd, mcpServers: [server] }), -32_602);
  }
  process.send({ id: "plain", method: "session/new", params: {} });
  assert.equal(((await process.answer("plain"))["error"] as { code: number }).code, -32_602);
  const { sessions } = await client.agent.request("session/list", {});
  assert.deepEqual(sessions, [], "what was refused is not open");
  const id = await client.session(cwd);
  assert.equal((await client.prompt(id, "hello")).stopReason, "end_turn");
});

test("a session without a prompt is open but not stored, and sessions.max_live bounds their number", async () => {
  await using place = await sharedPlace({ config: "sessions:\n  max_live: 2\n" });
  const client = await place.start().client();
  const [one, two] = [await client.session(place.folder), await client.session(place.folder)];
  assert.notEqual(one, two);
  const error = await refused(client.session(place.folder), -32_603);
  assert.match(error.message, /sessions\.max_live/);
  {
    await using store = await storeOf(place);
    assert.equal(await store.find("sessions", { id: one }), undefined);
  }
  await load(client, one, place.folder);
  await client.agent.request("session/close", { sessionId: one });
  await refused(load(client, one, place.folder), -32_002);
  await client.session(place.folder);
});

test("session/resume sends no history, and the next prompt still has the earlier context", async () => {
  await using place = await sharedPlace({ replies: [saying("Noted."), saying("Seven.")] });
  const first = await place.start().client();
  const id = await first.session(place.folder);
  await first.prompt(id, "remember seven");
  const second = await place.start().client();
  const answer = await resume(second, id, place.folder);
  assert.ok((answer.configOptions?.length ?? 0) > 0 && answer.modes);
  await opened(second, id);
  assert.deepEqual(history(second, id), []);
  await second.prompt(id, "which?");
  assert.equal(second.text(id), "Seven.");
  const said = place.models?.requests[1]?.body.messages.map(
    ({ role, content }) => `${role}: ${String(content)}`,
  );
  assert.deepEqual(said?.slice(-3), ["user: remember seven", "assistant: Noted.", "user: which?"]);
});

test("requests on an unknown or closed session answer -32002 with its id, and session/delete succeeds", async () => {
  await using place = await sharedPlace();
  {
    await using store = await storeOf(place);
    await saveConversations(store, [{ id: "theirs", owner: "somebody", cwd: place.folder }]);
  }
  const process = place.start();
  const client = await process.client();
  const closed = await client.session(place.folder);
  await client.agent.request("session/close", { sessionId: closed });
  const open = await client.session(place.folder);
  for (const sessionId of ["unknown", "theirs", closed, "", "../x", "a\u0000b"]) {
    for (const [method, request] of Object.entries(requestsOn(client, sessionId, place.folder))) {
      const { data, message } = await refused(request, -32_002, method);
      assert.deepEqual(data, { sessionId });
      assert.equal(message, `Session not found: ${sessionId}`);
    }
    // The SDK's client takes the error of a close for a success.
    const id = `close ${JSON.stringify(sessionId)}`;
    process.send({ id, method: "session/close", params: { sessionId } });
    const message = `Session not found: ${sessionId}`;
    assert.deepEqual((await process.answer(id))["error"], { code: -32_002, message, data: { sessionId } });
    assert.deepEqual(await client.agent.request("session/delete", { sessionId }), {});
  }
  {
    await using store = await storeOf(place);
    assert.ok(await store.find("sessions", { id: "theirs" }), "others' sessions are nobody else's to delete");
  }
  assert.equal((await client.prompt(open, "hello")).stopReason, "end_turn");
  await client.agent.request("session/close", { sessionId: open });
  await refused(client.prompt(open, "hello"), -32_002);
});

function requestsOn({ agent }: AcpClient, sessionId: string, cwd: string): Record<string, Promise<unknown>> {
  const prompt = [{ type: "text" as const, text: "hi" }];
  return {
    load: agent.request("session/load", { sessionId, cwd, mcpServers: [] }),
    resume: agent.request("session/resume", { sessionId, cwd, mcpServers: [] }),
    fork: agent.request("session/fork", { sessionId, cwd, mcpServers: [] }),
    prompt: agent.request("session/prompt", { sessionId, prompt }),
    setMode: agent.request("session/set_mode", { sessionId, modeId: "ask" }),
    setOption: agent.request("session/set_config_option", { sessionId, configId: "mode", value: "ask" }),
  };
}

test("parallel sessions resolve relative paths and run commands in their own cwd", async () => {
  await using place = await sharedPlace();
  const [one, two] = [join(place.base, "one"), join(place.base, "two")];
  for (const folder of [one, two]) {
    await mkdir(folder);
    await writeFile(join(folder, "note.txt"), `note of ${folder}`);
  }
  const client = await place.start({ cwd: place.folder }).client({ permission: choose("allow_once") });
  const ids = [await client.session(one), await client.session(two)];
  const both = (text: string) => Promise.all(ids.map((id) => client.prompt(id, text)));
  // Each ends only when the other has begun.
  await both("run: touch here; until [ -e ../one/here ] && [ -e ../two/here ]; do sleep 0.05; done; pwd -P");
  await both("read: note.txt");
  for (const [index, folder] of [one, two].entries()) {
    const text = client.text(ids[index]);
    assert.match(text, new RegExp(`^${folder}$`, "m"), "the shell");
    assert.match(text, new RegExp(`note of ${folder}`), "a relative path");
    const other = index === 0 ? two : one;
    assert.ok(!text.includes(`note of ${other}`));
  }
});

test("context files and the system prompt come from the session's cwd, not from the process's", async () => {
  await using place = await sharedPlace({ replies: () => saying("ok") });
  const folder = join(place.base, "project");
  await mkdir(folder);
  await writeFile(join(folder, "AGENTS.md"), "The word is plum.");
  await writeFile(join(place.folder, "AGENTS.md"), "The word is pear.");
  const client = await place.start({ cwd: place.folder }).client();
  const id = await client.session(folder);
  await client.prompt(id, "hello");
  const system = JSON.stringify(place.models?.requests[0]?.body.messages[0]);
  assert.ok(system.includes(folder), "the folder is named");
  assert.match(system, /plum/);
  assert.doesNotMatch(system, /pear/);
});

test("a session resumed in another folder moves there unless a turn runs, and a link to its folder changes nothing", async () => {
  await using place = await sharedPlace();
  const [moved, link] = [join(place.base, "moved"), join(place.base, "link")];
  await mkdir(moved);
  await symlink(place.folder, link);
  const client = await place.start().client();
  const id = await client.session(place.folder);
  await client.prompt(id, "hello");
  const pwd = async () => {
    const before = client.text(id).length;
    await client.prompt(id, "run: pwd -P");
    return client.text(id).slice(before);
  };
  await resume(client, id, link);
  {
    await using store = await storeOf(place);
    assert.equal(
      (await store.find("sessions", { id }))?.cwd,
      place.folder,
      "a link to it is the same folder",
    );
  }
  const turn = client.prompt(id, "run: until [ -e go ]; do sleep 0.05; done; pwd -P");
  await client.until(() => client.updates("tool_call", id)[0]);
  await resume(client, id, moved);
  await writeFile(join(place.folder, "go"), "");
  await turn;
  assert.ok((await pwd()).includes(place.folder), "the turn had kept it");
  await resume(client, id, moved);
  assert.ok((await pwd()).includes(await realpath(moved)));
  await refused(resume(client, id, join(place.base, "gone")), -32_602);
});

test("two processes with one session run one turn at a time, and each gets only its own text", async () => {
  await using place = await sharedPlace();
  const first = await place.start().client();
  const id = await first.session(place.folder);
  await first.prompt(id, "hello");
  const second = await place.start().client();
  await resume(second, id, place.folder);
  const before = first.text(id).length;
  const one = first.prompt(id, "run: until [ -e go ]; do sleep 0.05; done; echo from-one");
  await first.until(() => first.updates("tool_call", id)[0]);
  const two = second.prompt(id, "run: echo from-two");
  await writeFile(join(place.folder, "go"), "");
  const answers = await Promise.all([one, two]);
  assert.deepEqual(
    answers.map(({ stopReason }) => stopReason),
    ["end_turn", "end_turn"],
  );
  assert.match(first.text(id).slice(before), /from-one/);
  assert.doesNotMatch(first.text(id), /from-two/);
  assert.match(second.text(id), /from-two/);
  assert.doesNotMatch(second.text(id), /from-one/);
  await using store = await storeOf(place);
  const runs = await store.read.selectFrom("runs").selectAll().where("session_id", "=", id).execute();
  const spans = runs.map(({ started_at: from, ended_at: to }) => [from ?? 0, to ?? 0] as const);
  assert.equal(spans.length, 3);
  for (const [index, [from]] of spans.entries()) {
    const overlaps = spans.some(([a, b], other) => other !== index && from >= a && from < b);
    assert.ok(!overlaps, "no two turns at once");
  }
});
