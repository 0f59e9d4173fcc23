/** Turns of gateway sessions in real processes: killed, and watched from another process. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { createGatewayPlace, type GatewayPlace } from "../harness/gateway.ts";
import { connectSocket, startRpcProcess, type Json, type RpcHost } from "../harness/rpc.ts";
import { assertSameStream, assertTurnOrder } from "../harness/turn-order.ts";

/** What the demo model calls a tool for that needs leave. */
const ASKS = "run: rm -rf old; echo gone";

async function connect(place: GatewayPlace, url: string): Promise<RpcHost> {
  return connectSocket({ url }, `/api/ws?token=${await place.key()}`);
}

/** Waits for the end of a turn as a host hears it. Resolves to the payload of its `message.complete`. */
async function ended(host: RpcHost, turn: string): Promise<Json> {
  const end = await host.event("message.complete", (event) => event.turn_id === turn);
  const at = host.frames.findIndex(({ params }) => params === end);
  await host.event("session.info", (event) => event.session_id === end.session_id, at);
  return end.payload;
}

const lastSeq = (host: RpcHost, id: string) =>
  host.events(id).findLast(({ seq }) => seq !== undefined)?.seq ?? 0;

/** What was heard before a cut, and behind it, as one stream. */
function whole(before: RpcHost, after: RpcHost, id: string): readonly Json[] {
  const all = [...before.events(id), ...after.events(id)];
  assertTurnOrder(
    all.map((params) => ({ method: "event", params })),
    id,
    0,
  );
  return all;
}

test("SIGKILL in a turn: after the restart it has one end, interrupted, and the cursor and epoch of before hold", async () => {
  await using place = await createGatewayPlace();
  const first = await place.start();
  const host = await connect(place, first.url);
  const { payload: ready } = await host.event("gateway.ready");
  const { session_id: id } = await host.result("session.create");
  const { turn_id: turn } = await host.result("prompt.submit", { session_id: id, text: "run: sleep 30" });
  await host.event("tool.start");
  const { turn_id: queued } = await host.result("prompt.submit", {
    session_id: id,
    text: "run: echo queued",
  });
  await host.event("session.queue", ({ payload }) => payload.queued.length === 1);
  await first.kill("SIGKILL");
  await host.wire.closed;

  const second = await place.start();
  await using again = await connect(place, second.url);
  const { payload } = await again.event("gateway.ready");
  assert.equal(payload.replay_epoch, ready.replay_epoch);
  const cursor = { epoch: ready.replay_epoch, last_seen: lastSeq(host, id) };
  const view = await again.result("session.resume", { session_id: id, cursor });
  assert.equal(view.truncated, false);
  const broken = await ended(again, turn);
  assert.match(broken.status, /^(interrupted|error)$/);
  assert.match((await ended(again, queued)).text, /queued/);
  const ends = whole(host, again, id).filter(({ type }) => type === "message.complete");
  assert.deepEqual(
    ends.map(({ turn_id }) => turn_id),
    [turn, queued],
  );
  const { messages } = await again.result("session.history", { session_id: id });
  assert.equal(messages[0].text, "run: sleep 30");
  assert.equal(await second.kill("SIGTERM"), 0, second.stderr());
});

test("SIGTERM in a turn: connected hosts receive its one end before the socket closes with 1001", async () => {
  await using place = await createGatewayPlace();
  await writeFile(join(place.home, "config.yaml"), JSON.stringify({ api_server: { drain_seconds: 0 } }));
  const first = await place.start();
  const host = await connect(place, first.url);
  const { session_id: id } = await host.result("session.create");
  const { turn_id: turn } = await host.result("prompt.submit", { session_id: id, text: "run: sleep 30" });
  await host.event("tool.start");
  const [end, code] = await Promise.all([ended(host, turn), host.wire.closed, first.kill("SIGTERM")]);
  assert.match(end.status, /^(interrupted|error)$/);
  assert.equal(code, 1001);
  const open = assertTurnOrder(host.frames, id, 0);
  assert.equal(open.turn, undefined);
});

test("a host that starts `agentd rpc` resumes by the live id when the process was killed in a turn", async () => {
  await using place = await createGatewayPlace();
  const env = { AGENTD_DATABASE_URL: place.database };
  const host = await startRpcProcess(place.home, env);
  const { payload: ready } = await host.event("gateway.ready");
  const { session_id: id } = await host.result("session.create");
  const { turn_id: turn } = await host.result("prompt.submit", { session_id: id, text: "run: sleep 30" });
  await host.event("tool.start");
  host.kill("SIGKILL");
  await host.wire.closed;
  await using again = await startRpcProcess(place.home, env);
  const { payload } = await again.event("gateway.ready");
  assert.equal(payload.replay_epoch, ready.replay_epoch);
  const cursor = { epoch: ready.replay_epoch, last_seen: lastSeq(host, id) };
  const view = await again.result("session.resume", { session_id: id, cursor });
  assert.deepEqual([view.session_id, view.resumed, view.truncated], [id, id, false]);
  assert.match((await ended(again, turn)).status, /^(interrupted|error)$/);
  const ends = whole(host, again, id).filter(({ type }) => type === "message.complete");
  assert.equal(ends.length, 1);
});

test("a question that was open at SIGKILL is open after the restart, and its answer lets the turn go on", async () => {
  await using place = await createGatewayPlace();
  const first = await place.start();
  const host = await connect(place, first.url);
  const { session_id: id } = await host.result("session.create");
  const { turn_id: turn } = await host.result("prompt.submit", { session_id: id, text: ASKS });
  const asked = await host.event("approval.request");
  await first.kill("SIGKILL");
  await host.wire.closed;
  const second = await place.start();
  await using again = await connect(place, second.url);
  const { payload: ready } = await again.event("gateway.ready");
  const cursor = { epoch: ready.replay_epoch, last_seen: lastSeq(host, id) };
  const { open_requests: open } = await again.result("session.resume", { session_id: id, cursor });
  assert.deepEqual(
    open.map((each: Json) => each.id),
    [asked.payload.request_id],
  );
  const answer = { session_id: id, request_id: asked.payload.request_id, choice: "once" };
  assert.deepEqual(await again.result("approval.respond", answer), { resolved: 1 });
  assert.match((await ended(again, turn)).text, /gone/);
  const starts = whole(host, again, id).filter(({ type }) => type === "message.start");
  assert.equal(starts.length, 1);
  await second.kill("SIGTERM");
});

test("a turn that runs in one process is heard whole, steered, answered and interrupted by way of another", async () => {
  await using place = await createGatewayPlace();
  const [first, second] = [await place.start(), await place.start()];
  await using here = await connect(place, first.url);
  await using there = await connect(place, second.url);
  const { session_id: id } = await here.result("session.create");
  const { turn_id: asking } = await here.result("prompt.submit", { session_id: id, text: ASKS });
  const cursor = { epoch: (await there.event("gateway.ready")).payload.replay_epoch, last_seen: 0 };
  await there.result("session.resume", { session_id: id, cursor });
  const asked = await there.event("approval.request");
  const answer = { session_id: id, request_id: asked.payload.request_id, choice: "deny" };
  assert.deepEqual(await there.result("approval.respond", answer), { resolved: 1 });
  await Promise.all([here, there].map((host) => ended(host, asking)));

  const { turn_id: sleeping } = await here.result("prompt.submit", { session_id: id, text: "run: sleep 60" });
  await there.event("tool.start", (event) => event.turn_id === sleeping);
  const steered = await there.result("session.steer", { session_id: id, text: "mind the gap" });
  assert.equal(steered.status, "queued");
  const stopped = await there.result("session.interrupt", { session_id: id });
  assert.deepEqual(stopped, { status: "interrupted", turn_id: sleeping });
  const [end] = await Promise.all([here, there].map((host) => ended(host, sleeping)));
  assert.equal(end.status, "interrupted");
  assert.deepEqual(end.undelivered_steer, ["mind the gap"]);
  for (const host of [here, there]) assertTurnOrder(host.frames, id, 0);
  assertSameStream(there.events(id), here.events(id));
  await Promise.all([first.kill("SIGTERM"), second.kill("SIGTERM")]);
});
