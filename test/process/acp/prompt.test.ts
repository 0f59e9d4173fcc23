import assert from "node:assert/strict";
import { test } from "node:test";
import { choose, type AcpClient } from "../../harness/acp.ts";
import { sharedAcpPlaces } from "../../harness/acp-shared.ts";
import { calling, saying } from "../../harness/openai-server.ts";

const sharedPlace = sharedAcpPlaces();

const usage = { usage: { prompt_tokens: 40, completion_tokens: 7, total_tokens: 47 } };

test("a prompt streams its text under one message id, reports its usage and answers last", async () => {
  await using place = await sharedPlace({
    replies: [
      { pieces: [{ text: "Hello" }, { text: ", " }, { text: "wörld ✓" }, { finish: "stop" }, usage] },
    ],
  });
  const agentd = place.start();
  const editor = await agentd.client();
  const sessionId = await editor.session(place.folder);
  const answer = await editor.prompt(sessionId, "hello");
  assert.equal(answer.stopReason, "end_turn");
  assert.equal(editor.text(), "Hello, wörld ✓");
  const ids = new Set(editor.updates("agent_message_chunk").map(({ messageId }) => messageId));
  assert.equal(ids.size, 1);
  assert.match(String([...ids][0]), /^msg_/);
  const [told] = editor.updates("usage_update");
  assert.equal(told?.used, 47);
  assert.ok((told?.size ?? 0) > 1_000);
  assert.deepEqual(answer.usage && pick(answer.usage, ["totalTokens", "inputTokens", "outputTokens"]), {
    totalTokens: 47,
    inputTokens: 40,
    outputTokens: 7,
  });
  assertAnswersLast(agentd.lines, ["agent_message_chunk", "usage_update"]);
});

test("an empty prompt ends at once without a model call", async () => {
  await using place = await sharedPlace({ replies: [saying("the only answer")] });
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, " \n ")).stopReason, "end_turn");
  const none = await editor.agent.request("session/prompt", { sessionId, prompt: [] });
  assert.equal(none.stopReason, "end_turn");
  assert.equal(place.models?.requests.length, 0);
  await editor.prompt(sessionId, "now");
  assert.equal(editor.text(), "the only answer");
});

test("text after a tool call has a new message id, and thoughts come only from model reasoning", async () => {
  await using place = await sharedPlace({
    replies: [
      {
        pieces: [
          { reasoning: "let me look" },
          { text: "Looking." },
          { call: { index: 0, id: "call_1", name: "todo", arguments: todos } },
          { finish: "tool_calls" },
        ],
      },
      saying("Done."),
    ],
  });
  const editor = await place.start().client({ permission: choose("allow_once") });
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, "look")).stopReason, "end_turn");
  const chunks = editor.updates("agent_message_chunk");
  assert.equal(textBefore(editor), "Looking.");
  assert.equal(editor.text(), "Looking.Done.");
  assert.equal(new Set(chunks.map(({ messageId }) => messageId)).size, 2);
  const thoughts = editor.updates("agent_thought_chunk");
  assert.equal(
    thoughts.map(({ content }) => (content.type === "text" ? content.text : "")).join(""),
    "let me look",
  );
  assert.deepEqual(editor.updates("plan").at(-1)?.entries, [
    { content: "Look around", status: "in_progress", priority: "medium" },
    { content: "Say so", status: "pending", priority: "medium" },
  ]);
  const call = editor.updates("tool_call")[0];
  assert.equal(call?.kind, "think");
});

test("turns of a session share its context, and repeated call ids of a provider stay distinct", async () => {
  await using place = await sharedPlace({
    replies: [
      calling({ id: "same", name: "todo", json: todos }),
      calling({ id: "same", name: "todo", json: todos }),
      saying("one"),
      calling({ id: "same", name: "todo", json: todos }),
      saying("two"),
    ],
  });
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "first");
  await editor.prompt(sessionId, "second");
  const ids = editor.updates("tool_call").map(({ toolCallId }) => toolCallId);
  assert.equal(ids.length, 3);
  assert.equal(new Set(ids).size, 3, "a provider that numbers its calls anew does not mix them up");
  assert.deepEqual(
    editor
      .updates("tool_call_update")
      .flatMap(({ status, toolCallId }) => (status === "completed" ? [toolCallId] : [])),
    ids,
  );
  const last = place.models?.requests.at(-1)?.body.messages.map(({ role }) => role) ?? [];
  assert.equal(last.filter((role) => role === "user").length, 2);
});

const todos = JSON.stringify({
  todos: [
    { id: "1", content: "Look around", status: "in_progress" },
    { id: "2", content: "Say so", status: "pending" },
    { id: "3", content: "Give up", status: "cancelled" },
  ],
});

/** The agent's text up to the first tool call. */
function textBefore({ seen }: AcpClient): string {
  let text = "";
  for (const each of seen) {
    if (each.kind !== "update") continue;
    if (each.update.sessionUpdate === "tool_call") return text;
    if (each.update.sessionUpdate === "agent_message_chunk" && each.update.content.type === "text") {
      text += each.update.content.text;
    }
  }
  return text;
}

/** Behind the answer of the last prompt there are no such updates. */
function assertAnswersLast(
  lines: readonly Readonly<Record<string, unknown>>[],
  kinds: readonly string[],
): void {
  const answer = lines.findLastIndex(
    (line) => (line["result"] as { stopReason?: string } | undefined)?.stopReason,
  );
  const last = lines.findLastIndex((line) => kinds.includes(kindOf(line)));
  assert.ok(last !== -1 && last < answer, `the answer is line ${answer}, the last update line ${last}`);
}

function kindOf(line: Readonly<Record<string, unknown>>): string {
  const params = line["params"] as { readonly update?: { readonly sessionUpdate?: string } } | undefined;
  return params?.update?.sessionUpdate ?? "";
}

function pick<T extends object>(from: T, keys: readonly (keyof T)[]): Partial<T> {
  return Object.fromEntries(keys.map((key) => [key, from[key]])) as Partial<T>;
}

test("_meta.systemPrompt replaces the configured instructions, or follows them with append, for the model alone", async () => {
  await using place = await sharedPlace({
    replies: () => saying("ok"),
    config: "agent: { instructions: Configured words. }\n",
  });
  const editor = await place.start().client();
  const open = { cwd: place.folder, mcpServers: [] };
  const sent = async (sessionId: string) => {
    await editor.prompt(sessionId, "hello");
    return JSON.stringify(place.models?.requests.at(-1)?.body.messages);
  };
  const start = async (systemPrompt: unknown) =>
    (await editor.agent.request("session/new", { ...open, _meta: { systemPrompt } })).sessionId;

  const replaced = await start("Only my words.");
  for (const turn of [1, 2]) {
    const messages = await sent(replaced);
    assert.match(messages, /Only my words\./, `turn ${turn}`);
    assert.doesNotMatch(messages, /Configured words/);
  }
  assert.match(await sent(await start({ append: "My words too." })), /Configured words\.[^]*My words too\./);
  await assert.rejects(start({ prepend: "x" }), { code: -32_602 });

  const other = await place.start().client();
  await other.agent.request("session/load", { ...open, sessionId: replaced });
  assert.ok(!JSON.stringify(other.seen).includes("Only my words"), "it is not part of the conversation");
});
