import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import type { Message } from "../../../src/agent/engine.ts";
import { choose, createAcpPlace } from "../../harness/acp.ts";
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
import { calling, saying, type Piece } from "../../harness/openai-server.ts";

const sharedPlace = sharedAcpPlaces();

/** Chunks of one message as one, without what only the live view has. */
function merged(updates: readonly SessionUpdate[]): string[] {
  const lines: { key: string; text: string }[] = [];
  for (const update of updates) {
    if (!("content" in update) || !update.content || Array.isArray(update.content)) continue;
    const { content } = update;
    const key = `${update.sessionUpdate} ${"messageId" in update ? (update.messageId ?? "-") : "-"}`;
    const text = content.type === "text" ? content.text : content.type;
    const last = lines.at(-1);
    if (last?.key === key) last.text += text;
    else lines.push({ key, text });
  }
  return lines.map(({ key, text }) => `${key}: ${text}`);
}

const todos = [
  { id: "1", content: "look", status: "completed" },
  { id: "2", content: "write", status: "in_progress" },
  { id: "3", content: "sleep", status: "cancelled" },
];

const answers = [
  {
    pieces: [
      { reasoning: "Hm, a file." },
      { text: "I write " },
      { text: "it." },
      ...callPieces(0, "c1", "write_file", { path: "new.txt", content: "one\n" }),
      ...callPieces(1, "c2", "read_file", { path: "missing.txt" }),
      ...callPieces(2, "c3", "todo", { todos }),
      { finish: "tool_calls" },
    ],
  },
  saying("Done."),
  saying("You are welcome."),
];

function callPieces(index: number, id: string, name: string, input: unknown): readonly Piece[] {
  return [{ call: { index, id, name, arguments: JSON.stringify(input) } }];
}

test("session/load replays the history in order before its answer, with the live message ids", async () => {
  await using place = await sharedPlace({ replies: answers });
  const live = await place.start().client({ permission: choose("allow_once") });
  const id = await live.session(place.folder);
  await live.prompt(id, "write a file");
  await live.prompt(id, "thanks");

  const again = await place.start().client();
  const answer = await load(again, id, place.folder);
  const before = history(again, id).length;
  assert.ok((answer.configOptions?.length ?? 0) > 0 && answer.modes);
  await opened(again, id);
  const replayed = history(again, id);
  assert.equal(replayed.length, before, "nothing of the history comes behind the answer");

  assert.deepEqual(
    replayed.map(({ sessionUpdate }) => sessionUpdate),
    [
      "user_message_chunk",
      "agent_thought_chunk",
      "agent_message_chunk",
      "tool_call",
      "tool_call",
      "tool_call",
      "agent_message_chunk",
      "user_message_chunk",
      "agent_message_chunk",
      "plan",
    ],
  );
  const users = again.updates("user_message_chunk", id);
  assert.deepEqual(
    users.map(({ messageId, content }) => [messageId, content.type === "text" && content.text]),
    [
      ["msg_1", "write a file"],
      [users[1]?.messageId, "thanks"],
    ],
  );
  assert.match(again.updates("agent_thought_chunk", id)[0]?.messageId ?? "", /^msg_/);
  const isAgents = ({ sessionUpdate }: SessionUpdate) => sessionUpdate.startsWith("agent_");
  assert.deepEqual(merged(replayed.filter(isAgents)), merged(history(live, id).filter(isAgents)));

  const calls = again.updates("tool_call", id);
  const lives = live.updates("tool_call", id);
  const ends = live
    .updates("tool_call_update", id)
    .filter(({ status }) => /completed|failed/.test(status ?? ""));
  for (const call of calls) {
    const began = lives.find(({ toolCallId }) => toolCallId === call.toolCallId);
    const ended = ends.find(({ toolCallId }) => toolCallId === call.toolCallId);
    assert.ok(began && ended);
    const { toolCallId, title, kind, name, rawInput, locations } = began;
    const { status, content, rawOutput } = ended;
    const { sessionUpdate: _, ...replay } = call;
    assert.deepEqual(
      { ...replay },
      JSON.parse(
        JSON.stringify({ toolCallId, title, name, kind, status, content, locations, rawInput, rawOutput }),
      ),
    );
  }
  assert.deepEqual(
    calls.map(({ status, name }) => `${name} ${status}`),
    ["write_file completed", "read_file failed", "todo completed"],
  );
  const wrote = calls[0]?.content?.find(({ type }) => type === "diff");
  assert.ok(wrote?.type === "diff" && wrote.newText === "one\n" && wrote.oldText === null);
  assert.deepEqual(again.updates("plan", id), live.updates("plan", id).slice(-1));
});

test("session/load replays a transcript without journal events and hides steering and summaries", async () => {
  await using place = await sharedPlace({ replies: [saying("more")] });
  const call = { type: "tool_call" as const, callId: "c1", tool: "terminal", input: { command: "ls" } };
  const messages: Message[] = [
    { role: "system", text: "hidden rules" },
    { role: "user", text: "look", attachments: [{ type: "image", mediaType: "image/png", data: "aGk=" }] },
    {
      role: "assistant",
      parts: [{ type: "reasoning", text: "hm" }, { type: "text", text: "I look." }, call],
    },
    { role: "tool", callId: "c1", tool: "terminal", status: "denied", text: "Denied by the user." },
    { role: "user", text: "faster", origin: "steer" },
    { role: "user", text: "what was before", origin: "summary" },
    { role: "assistant", parts: [{ type: "text", text: "Half a" }], interrupted: true },
  ];
  {
    await using store = await storeOf(place);
    await saveConversations(store, [{ id: "old", source: "tui", cwd: place.folder, messages }]);
  }
  const client = await place.start().client();
  await load(client, "old", place.folder);
  const lines = history(client, "old").map((update) => {
    if (update.sessionUpdate === "tool_call") return `${update.title} ${update.status}`;
    if (!("content" in update) || Array.isArray(update.content)) return update.sessionUpdate;
    const { content } = update;
    const id = "messageId" in update ? (update.messageId ?? "-") : "-";
    return `${update.sessionUpdate} ${id} ${content?.type === "text" ? content.text : content?.type}`;
  });
  assert.deepEqual(lines, [
    "user_message_chunk msg_2 look",
    "user_message_chunk msg_2 image",
    "agent_thought_chunk msg_3_thought_1 hm",
    "agent_message_chunk msg_3 I look.",
    "Run: ls failed",
    "agent_message_chunk msg_7 Half a",
    "agent_message_chunk msg_7_interrupted [Interrupted]",
  ]);
  assert.equal((await client.prompt("old", "go on")).stopReason, "end_turn");
});

test("a replay holds no terminal references and no update above 256 KiB, and keeps all 500 messages", async () => {
  await using place = await sharedPlace();
  const long = "🙂\u0000 ".repeat(120_000);
  const blob = Buffer.alloc(3_000_000, 1).toString("base64");
  const huge: Message[] = [
    { role: "user", text: long, attachments: [{ type: "image", mediaType: "image/png", data: blob }] },
    {
      role: "assistant",
      parts: [
        { type: "reasoning", text: long },
        { type: "text", text: long },
        { type: "tool_call", callId: "c1", tool: "terminal", input: { command: long } },
        { type: "tool_call", callId: "c2", tool: "write_file", input: { path: "a", content: long } },
      ],
    },
    { role: "tool", callId: "c1", tool: "terminal", status: "ok", text: long },
    { role: "tool", callId: "c2", tool: "write_file", status: "ok", text: long },
  ];
  const many = Array.from({ length: 500 }, (_, index): Message =>
    index % 2 === 0
      ? { role: "user", text: `question ${index}` }
      : { role: "assistant", parts: [{ type: "text", text: `answer ${index} `.repeat(40) }] },
  );
  {
    await using store = await storeOf(place);
    await saveConversations(store, [
      { id: "huge", cwd: place.folder, messages: huge },
      { id: "many", cwd: place.folder, messages: many },
    ]);
  }
  const meta = { terminal_output: true };
  const process = place.start();
  const client = await process.client({ capabilities: { terminal: true, _meta: meta } });
  await load(client, "huge", place.folder);
  for (const line of process.lines) {
    assert.ok(Buffer.byteLength(JSON.stringify(line)) <= 262_144, JSON.stringify(line).slice(0, 200));
  }
  const text = JSON.stringify(history(client, "huge"));
  assert.doesNotMatch(text, /"type":"terminal"|terminal_info|terminal_output/);
  assert.ok(!text.includes(blob.slice(0, 70_000)), "no blob");
  const whole = (kind: "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk") =>
    client
      .updates(kind, "huge")
      .map(({ content }) => (content.type === "text" ? content.text : ""))
      .join("");
  assert.ok(whole("user_message_chunk").startsWith(long));
  assert.ok(whole("agent_message_chunk").startsWith(long), "texts are told whole, in pieces");
  assert.equal(whole("agent_thought_chunk"), long);
  assert.equal(client.updates("tool_call", "huge").length, 2);

  await load(client, "many", place.folder);
  assert.equal(history(client, "many").length, 500);
});

test("$/cancel_request on a long session/load answers -32800, and the session can be loaded again", async () => {
  await using place = await createAcpPlace();
  const messages = Array.from({ length: 10_000 }, (_, index): Message => ({
    role: "user",
    text: `${index}`,
  }));
  {
    await using store = await storeOf(place);
    await saveConversations(store, [{ id: "long", cwd: place.folder, messages }]);
  }
  const process = place.start();
  const client = await process.client();
  const stop = new AbortController();
  const params = { sessionId: "long", cwd: place.folder, mcpServers: [] };
  const loading = client.agent.request("session/load", params, { cancellationSignal: stop.signal });
  const caught = refused(loading, -32_800);
  await client.until(() => (history(client, "long").length > 0 ? true : undefined));
  stop.abort();
  await caught;
  await refused(client.prompt("long", "hi"), -32_002);
  await load(client, "long", place.folder);
  assert.equal((await client.prompt("long", "hi")).stopReason, "end_turn");
});

test("a client that loads or resumes a session with a turn in another process gets its updates to the end", async () => {
  const waits = { id: "c1", name: "terminal", json: JSON.stringify({ command: UNTIL_GO }) };
  await using place = await sharedPlace({
    replies: (_, index) => (index === 0 ? calling(waits) : saying("Late words.")),
  });
  const first = await place.start().client();
  const id = await first.session(place.folder);
  const turn = first.prompt(id, "go");
  await first.until(() => first.updates("tool_call", id)[0]);

  const viewer = await place.start().client();
  await load(viewer, id, place.folder);
  assert.deepEqual(
    history(viewer, id).map(({ sessionUpdate }) => sessionUpdate),
    ["user_message_chunk"],
  );
  await viewer.until(() => viewer.updates("tool_call", id)[0]);
  const other = await place.start().client();
  await resume(other, id, place.folder);
  await other.until(() => other.updates("tool_call", id)[0]);
  await writeFile(join(place.folder, "go"), "");
  assert.equal((await turn).stopReason, "end_turn");
  for (const client of [viewer, other]) {
    await client.until(() => (client.text(id) === "Late words." ? true : undefined));
    assert.deepEqual(
      client.updates("tool_call", id).map(({ toolCallId }) => toolCallId),
      first.updates("tool_call", id).map(({ toolCallId }) => toolCallId),
    );
  }
});

test("a watching client stops the turn by a cancel, and not by closing the session or exiting", async () => {
  const waits = { id: "c1", name: "terminal", json: JSON.stringify({ command: UNTIL_GO }) };
  await using place = await sharedPlace({ replies: () => calling(waits) });
  const first = await place.start().client();
  const id = await first.session(place.folder);
  const turn = first.prompt(id, "go");
  await first.until(() => first.updates("tool_call", id)[0]);

  const leaving = place.start();
  const left = await leaving.client();
  await load(left, id, place.folder);
  await left.until(() => left.updates("tool_call", id)[0]);
  await left.agent.request("session/close", { sessionId: id });
  await load(left, id, place.folder);
  await left.until(() => left.updates("tool_call", id)[1]);
  leaving.child.stdin?.end();
  await leaving.exited;

  const viewer = await place.start().client();
  await load(viewer, id, place.folder);
  await viewer.until(() => viewer.updates("tool_call", id)[0]);
  await viewer.agent.notify("session/cancel", { sessionId: id });
  assert.equal((await turn).stopReason, "cancelled");
});

const UNTIL_GO = "while [ ! -e go ]; do sleep 0.05; done";
