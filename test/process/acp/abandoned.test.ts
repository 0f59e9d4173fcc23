/** What editors find of sessions whose process is gone, before the next round of recovery. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { abandonSessions } from "../../harness/abandoned.ts";
import { createAcpPlace } from "../../harness/acp.ts";
import { history, load, resume, storeOf } from "../../harness/acp-sessions.ts";

test("session/load replays the turn of a process that is gone as interrupted, with its unfinished call as failed", async () => {
  await using place = await createAcpPlace({ replies: [] });
  const client = await place.start().client();
  await client.session(place.folder);
  await using store = await storeOf(place);
  const [one] = await abandonSessions(store, 1, "default");
  const { sessionId, runId } = one!;
  await load(client, sessionId, place.folder);
  const told = history(client, sessionId).map((update) => {
    if (update.sessionUpdate === "tool_call") return `tool_call ${update.status}`;
    if (!("content" in update) || Array.isArray(update.content)) return update.sessionUpdate;
    return update.content?.type === "text" ? update.content.text : "-";
  });
  assert.deepEqual(told.slice(0, 2), ["half an answer", "tool_call failed"]);
  assert.match(told.at(-1) ?? "", /^\[Interrupted\] /);
  assert.equal((await store.find("runs", { id: runId }))?.status, "interrupted");
});

test("session/resume of a session whose process is gone finds no turn at work in it", async () => {
  await using place = await createAcpPlace({ replies: [] });
  const client = await place.start().client();
  await client.session(place.folder);
  await using store = await storeOf(place);
  const [one] = await abandonSessions(store, 1, "default");
  await resume(client, one!.sessionId, place.folder);
  assert.equal((await store.find("runs", { id: one!.runId }))?.status, "interrupted");
  assert.equal((await store.find("sessions", { id: one!.sessionId }))?.lease_owner, null);
});
