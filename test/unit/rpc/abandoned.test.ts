/** What hosts hear of sessions whose process is gone, before the next round of recovery. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { abandonSessions, GHOST } from "../../harness/abandoned.ts";
import { createTestGateway, type TestHost } from "../../harness/rpc-host.ts";

test("session.resume of a session whose process is dead reports its turn as interrupted, not as running", async () => {
  await using gateway = await createTestGateway();
  const host = gateway.host();
  const [one] = await abandonSessions(gateway.agent.store, 1);
  const { sessionId, runId } = one!;
  const view = await host.call("session.resume", { session_id: sessionId });
  assert.deepEqual([view.running, view.status, view.inflight], [false, "idle", undefined]);
  assert.deepEqual(
    view.messages.map(({ role }) => role),
    ["assistant", "tool"],
  );
  assert.equal((await gateway.agent.run(runId)).status, "interrupted");
});

for (const { method, statusIn } of [
  {
    method: "session.status",
    statusIn: async (host: TestHost, id: string) =>
      (await host.call("session.status", { session_id: id })).state.status,
  },
  {
    method: "session.activate",
    statusIn: async (host: TestHost, id: string) =>
      (await host.call("session.activate", { session_id: id })).status,
  },
  {
    method: "session.active_list",
    statusIn: async (host: TestHost) => (await host.call("session.active_list")).sessions[0]?.status,
  },
]) {
  test(`${method} reports a session as idle when its process is dead`, async () => {
    await using gateway = await createTestGateway();
    const host = gateway.host();
    const [one] = await abandonSessions(gateway.agent.store, 1);
    const { sessionId: id, runId } = one!;
    await host.call("session.resume", { session_id: id });
    await gateway.agent.store.write(async (tx) => {
      await tx.update("sessions", { id }, { lease_owner: GHOST, lease_until: 1 });
      await tx.update("runs", { id: runId }, { status: "running", ended_at: null });
    });
    assert.equal(await statusIn(host, id), "idle");
    assert.equal((await gateway.agent.run(runId)).status, "interrupted");
  });
}
