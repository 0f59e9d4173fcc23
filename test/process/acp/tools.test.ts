import assert from "node:assert/strict";
import { test } from "node:test";
import { choose, type AcpClient, type Seen } from "../../harness/acp.ts";
import { sharedAcpPlaces } from "../../harness/acp-shared.ts";
import { calling, saying } from "../../harness/openai-server.ts";

const sharedPlace = sharedAcpPlaces();

const run = (id: string, command: string) => ({ id, name: "terminal", json: JSON.stringify({ command }) });

test("a tool call goes from pending through permission and in_progress to completed under one id", async () => {
  await using place = await sharedPlace({
    replies: [calling(run("call_1", "rm -f left.txt && echo gone")), saying("done")],
  });
  const editor = await place.start().client({ permission: choose("allow_once") });
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, "clean up")).stopReason, "end_turn");
  assert.deepEqual(steps(editor), ["pending", "permission", "in_progress", "completed"]);
  const [call] = editor.updates("tool_call");
  const ids = editor.seen.flatMap((each) =>
    each.kind === "permission"
      ? [each.request.toolCall.toolCallId]
      : "toolCallId" in each.update
        ? [each.update.toolCallId]
        : [],
  );
  assert.deepEqual([...new Set(ids)], [call?.toolCallId]);
  assert.equal(call?.title, "Run: rm -f left.txt && echo gone");
  assert.equal(call?.kind, "execute");
  assert.equal(call?.name, "terminal");
  assert.deepEqual(call?.rawInput, { command: "rm -f left.txt && echo gone" });
  const end = editor.updates("tool_call_update").at(-1);
  assert.match(JSON.stringify(end?.content), /gone/);
  assert.equal((end?.rawOutput as { exitCode: number } | undefined)?.exitCode, 0);
});

test("a tool call that needs no approval goes from pending to in_progress to completed", async () => {
  await using place = await sharedPlace();
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "run: echo free");
  assert.deepEqual(steps(editor), ["pending", "in_progress", "completed"]);
});

test("a denied tool call fails and is never in progress", async () => {
  await using place = await sharedPlace({
    replies: [calling(run("call_1", "rm -f left.txt")), saying("as you like")],
  });
  const editor = await place.start().client({ permission: choose("reject_once") });
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "clean up");
  assert.deepEqual(steps(editor), ["pending", "permission", "failed"]);
  assert.match(JSON.stringify(editor.updates("tool_call_update").at(-1)?.content), /denied by user/);
});

test("parallel calls of one tool keep their own results", async () => {
  const words = ["alder", "birch", "cedar", "dogwood", "elm"];
  await using place = await sharedPlace({
    replies: [
      calling(...words.map((word, at) => run("same", `sleep 0.${5 - at}; echo ${word} | tr a-z A-Z`))),
      saying("all"),
    ],
  });
  const editor = await place.start().client({ permission: choose("allow_once") });
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "all at once");
  const calls = editor.updates("tool_call");
  assert.equal(calls.length, words.length);
  assert.equal(new Set(calls.map(({ toolCallId }) => toolCallId)).size, words.length);
  for (const { toolCallId, rawInput } of calls) {
    const word = /echo (\w+)/.exec((rawInput as { command: string }).command)?.[1] ?? "";
    const ends = editor
      .updates("tool_call_update")
      .filter((update) => update.toolCallId === toolCallId && update.status === "completed");
    assert.equal(ends.length, 1);
    const text = JSON.stringify(ends[0]?.content);
    for (const other of words) {
      assert.equal(text.includes(other.toUpperCase()), other === word, `${other} in the result of ${word}`);
    }
  }
});

test("the work of sub-agents is reported in the tool call that started them", async () => {
  await using place = await sharedPlace({
    replies: ({ body: { messages } }) => {
      if (messages.at(-1)?.["role"] === "tool") return saying("reported");
      const isChild = JSON.stringify(messages.at(-1)).includes("count the files");
      if (isChild) return calling(run("call_1", "echo counted"));
      const tasks = [{ goal: "count the files" }];
      return calling({ id: "call_1", name: "delegate_task", json: JSON.stringify({ tasks }) });
    },
  });
  const editor = await place.start().client({ permission: choose("allow_once") });
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, "have it done")).stopReason, "end_turn");
  const calls = editor.updates("tool_call");
  assert.deepEqual(
    calls.map(({ name }) => name),
    ["delegate_task"],
  );
  const updates = editor.updates("tool_call_update");
  assert.deepEqual([...new Set(updates.map(({ toolCallId }) => toolCallId))], [calls[0]?.toolCallId]);
  assert.match(JSON.stringify(updates.map(({ content }) => content)), /1\. count the files/);
  assert.equal(updates.at(-1)?.status, "completed");
  assert.match(JSON.stringify(updates.at(-1)?.content), /reported/);
});

/** The states of the calls as the client saw them, without what was said twice in a row. */
function steps({ seen }: AcpClient): readonly string[] {
  const all = seen.flatMap((each: Seen) => {
    if (each.kind === "permission") return ["permission"];
    const { update } = each;
    const isCall = update.sessionUpdate === "tool_call" || update.sessionUpdate === "tool_call_update";
    return isCall && update.status ? [update.status] : [];
  });
  return all.filter((step, at) => step !== all[at - 1]);
}
