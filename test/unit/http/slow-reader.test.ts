/** A follower of a run that stops reading must not keep its place for ever. */
import assert from "node:assert/strict";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { test } from "node:test";
import { createGate, fetchRun, startRun } from "../../harness/runs.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";
import { readFrames } from "../../harness/sse.ts";
import { watchUnhandled } from "../../harness/unhandled.ts";

/** Far more than sockets and streams hold on both sides. */
const PIECES = 400;

/** An answer whose body nobody reads. */
function open(service: TestService, path: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(`${service.url}${path}`, { headers: { authorization: `Bearer ${KEY}` } });
    request.on("response", (response) => resolve(response.on("error", () => {}).pause()));
    request.on("error", reject).end();
  });
}

test("a client that stops reading is cut, another takes its place, and it resumes with its cursor", async () => {
  await using _ = watchUnhandled();
  const gate = createGate();
  await using service = await startTestService({
    script: gate.script,
    config: { limits: { slow_reader_seconds: 1, max_subscribers_per_run: 1 } },
  });
  const { run_id: id, session_id: sessionId } = await startRun(service);
  const data = { message_id: "msg_1", delta: "x".repeat(50_000) };
  const pieces = Array.from({ length: PIECES }, () => ({ type: "message.delta", runId: id, data }));
  const { store } = service.service;
  await store.write((tx) => store.journal.append(tx, sessionId, pieces));
  const path = `/v1/runs/${id}/events`;
  const stuck = await open(service, path);
  assert.equal(stuck.statusCode, 200);
  assert.equal((await service.request(path)).status, 429);
  const startMs = performance.now();
  let next = await service.request(path);
  for (; next.status !== 200; next = await service.request(path)) {
    await next.body?.cancel();
    assert.ok(performance.now() - startMs < 15_000, "it still has its place");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  gate.open();
  const ids: number[] = [];
  for await (const frame of readFrames(next)) if (frame.id !== undefined) ids.push(Number(frame.id));
  const { last_seq: last } = await fetchRun(service, id);
  assert.deepEqual(
    ids,
    Array.from({ length: last }, (_value, index) => index + 1),
    "who reads gets everything",
  );
  stuck.destroy();
});
