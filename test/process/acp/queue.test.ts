import assert from "node:assert/strict";
import { test } from "node:test";
import type { AcpProcess } from "../../harness/acp.ts";
import { sharedAcpPlaces } from "../../harness/acp-shared.ts";
import { saying, type ChatBody, type ModelReply } from "../../harness/openai-server.ts";

const sharedPlace = sharedAcpPlaces();

const endless: ModelReply = { pieces: [{ text: "Once upon a time" }, { hang: true }] };

test("prompts sent back to back run in order, each with its own answer", async () => {
  await using place = await sharedPlace({
    replies: ({ body }) => saying(`You said ${lastOf(body)}.`),
  });
  const agentd = place.start();
  const editor = await agentd.client();
  const sessionId = await editor.session(place.folder);
  const words = ["one", "two", "three", "four"];
  const answers = await Promise.all(words.map((word) => editor.prompt(sessionId, word)));
  assert.deepEqual(
    answers.map(({ stopReason }) => stopReason),
    words.map(() => "end_turn"),
  );
  assert.deepEqual(
    told(agentd),
    words.flatMap((word) => [`You said ${word}.`, "end_turn"]),
  );
});

test("a cancel ends the running and the queued prompts, and none of them runs again", async () => {
  await using place = await sharedPlace({
    replies: ({ body }) => (lastOf(body) === "first" ? endless : saying(`You said ${lastOf(body)}.`)),
  });
  const agentd = place.start();
  const editor = await agentd.client();
  const sessionId = await editor.session(place.folder);
  const prompts = ["first", "second", "third"].map((word) => editor.prompt(sessionId, word));
  await editor.until(() => editor.text().includes("Once upon a time") || undefined);
  await editor.agent.notify("session/cancel", { sessionId });
  const answers = await Promise.all(prompts);
  assert.deepEqual(
    answers.map(({ stopReason }) => stopReason),
    ["cancelled", "cancelled", "cancelled"],
  );
  for (const next of ["fourth", "fifth"]) {
    assert.equal((await editor.prompt(sessionId, next)).stopReason, "end_turn");
  }
  assert.deepEqual(
    place.models?.requests.map(({ body }) => lastOf(body)),
    ["first", "fourth", "fifth"],
  );
  assert.equal(editor.text(), "Once upon a timeYou said fourth.You said fifth.");
});

test("prompts of different sessions run concurrently", async () => {
  await using place = await sharedPlace({
    replies: ({ body }) => (lastOf(body) === "first" ? endless : saying(`You said ${lastOf(body)}.`)),
  });
  const editor = await place.start().client();
  const [busy, free] = [await editor.session(place.folder), await editor.session(place.folder)];
  const prompt = editor.prompt(busy, "first");
  await editor.until(() => editor.text(busy).includes("Once upon a time") || undefined);
  assert.equal((await editor.prompt(free, "second")).stopReason, "end_turn");
  assert.equal(editor.text(free), "You said second.");
  await editor.agent.notify("session/cancel", { sessionId: free });
  await editor.agent.notify("session/cancel", { sessionId: busy });
  assert.equal((await prompt).stopReason, "cancelled");
});

test("prompts beyond the limit of concurrent runs wait for their turn, and all are answered in order", async () => {
  const atWork = Promise.withResolvers<void>();
  await using place = await sharedPlace({
    replies: ({ body }) => {
      if (lastOf(body) !== "first") return saying(`You said ${lastOf(body)}.`);
      atWork.resolve();
      return endless;
    },
    config: "limits: { max_concurrent_runs: 1 }\n",
  });
  const editor = await place.start().client();
  const busy = await editor.session(place.folder);
  const first = editor.prompt(busy, "first");
  await atWork.promise;
  const words = ["second", "third", "fourth"];
  const sessions: string[] = [];
  for (const _ of [...words, "never"]) sessions.push(await editor.session(place.folder));
  const waiting = words.map((word, index) => editor.prompt(sessions[index]!, word));
  const never = editor.prompt(sessions[3]!, "never");
  await editor.agent.notify("session/cancel", { sessionId: sessions[3]! });
  assert.equal((await never).stopReason, "cancelled", "a prompt that waits can be cancelled");
  await editor.agent.notify("session/cancel", { sessionId: busy });
  assert.equal((await first).stopReason, "cancelled");
  for (const prompt of waiting) assert.equal((await prompt).stopReason, "end_turn");
  assert.deepEqual(
    place.models?.requests.map(({ body }) => lastOf(body)),
    ["first", ...words],
  );
});

/** What the user said last. */
function lastOf({ messages }: ChatBody): string {
  const { content } = messages.findLast(({ role }) => role === "user") ?? {};
  return typeof content === "string"
    ? content
    : ((content as readonly { readonly text?: string }[] | undefined) ?? []).map(({ text }) => text).join("");
}

/** Texts and answers in the order of the wire; the pieces of a text as one. */
function told({ lines }: AcpProcess): readonly string[] {
  const all: string[] = [];
  let text = "";
  for (const line of lines) {
    const { update } = (line["params"] ?? {}) as { readonly update?: Readonly<Record<string, unknown>> };
    if (update?.["sessionUpdate"] === "agent_message_chunk")
      text += (update["content"] as { text: string }).text;
    const { stopReason } = (line["result"] ?? {}) as { readonly stopReason?: string };
    if (stopReason === undefined) continue;
    all.push(text, stopReason);
    text = "";
  }
  return all;
}
