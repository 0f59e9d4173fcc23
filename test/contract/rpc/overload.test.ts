/** More requests than a connection may have in flight. */
import assert from "node:assert/strict";
import { openSession, rpcScenario } from "./scenario.ts";

const MAX_IN_FLIGHT = 256;

rpcScenario(
  ["error -32001", "session.title"],
  "above 256 requests in flight each further one gets overloaded, and other connections are not affected",
  async (host, { service, connect }) => {
    const neighbour = await connect();
    const id = await openSession(host);
    const name = (n: number) => host.call("session.title", { session_id: id, title: `title ${n}` });
    await name(0);
    // Who writes the session now waits.
    const begun = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    const writing = service.service.store.write(async (tx) => {
      await tx.update("sessions", { id }, { title: "held" });
      begun.resolve();
      await gate.promise;
    });
    await begun.promise;
    const taken = Array.from({ length: MAX_IN_FLIGHT }, (_, n) => name(n));
    const batch = [1, 2].map((n) => ({
      jsonrpc: "2.0",
      id: `b${n}`,
      method: "session.title",
      params: { session_id: id },
    }));
    const refused = [name(1), name(2), host.call("ping")];
    host.send(batch);
    for (const { error } of await Promise.all(refused)) {
      assert.equal(error?.code, -32001);
      assert.deepEqual(error.data, { reason: "overloaded", retryable: true });
      assert.match(error.message, /256 requests are in flight\. Wait for their answers/);
    }
    const answers = await host.frame((frame) => Array.isArray(frame));
    for (const { error } of answers) assert.equal(error?.code, -32001);
    assert.deepEqual(await neighbour.result("ping"), { pong: true });
    gate.resolve();
    await writing;
    for (const { result, error } of await Promise.all(taken)) assert.ok(result, JSON.stringify(error));
    assert.equal((await name(7)).result.title, "title 7");
    assert.deepEqual(await host.result("ping"), { pong: true });
  },
);
