/** A follower of a run that stops reading must not keep its place for ever. */
import assert from "node:assert/strict";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { test } from "node:test";
import { createGate, fetchRun, startRun } from "../../harness/runs.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";
import { readFrames } from "../../harness/sse.ts";
import { WatchedClock } from "../../harness/watched-clock.ts";
import { watchUnhandled } from "../../harness/unhandled.ts";

/** Far more than sockets and streams hold on both sides. */
const PIECES = 400;
const SLOW_MS = 7_000;

/** An answer whose body is never read. */
function open(service: TestService, path: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(`${service.url}${path}`, { headers: { authorization: `Bearer ${KEY}` } });
    request.on("response", (response) => resolve(response.on("error", () => {}).pause()));
    request.on("error", reject).end();
  });
}

test("a client that stops reading is cut, frees its place, and resumes from its cursor", async () => {
  await using _ = watchUnhandled();
  const gate = createGate();
  const clock = new WatchedClock();
  await using service = await startTestService({
    script: gate.script,
    config: { limits: { slow_reader_seconds: SLOW_MS / 1000, max_subscribers_per_run: 1 } },
    clock,
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
  // The buffers of both sides are full, so nothing pulls the next event.
  await clock.wait(SLOW_MS);
  let next = await service.request(path);
  for (let passedMs = 0; next.status !== 200; passedMs += SLOW_MS) {
    await next.body?.cancel();
    assert.ok(passedMs < 1_000 * SLOW_MS, "it still has its place");
    clock.tick(SLOW_MS);
    next = await service.request(path);
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
