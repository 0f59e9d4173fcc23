import assert from "node:assert/strict";
import process from "node:process";
import { registerSecret } from "../../../src/base/observe.ts";
import type { RpcHost } from "../../harness/rpc.ts";
import { openSession, rpcScenario, takeTurn, type RpcSetting } from "./scenario.ts";

/** A session that has run, with one background process. Resolves to both their ids. */
async function withProcess(host: RpcHost, { service }: RpcSetting, command = "sleep 600") {
  const sessionId = await openSession(host);
  await takeTurn(host, sessionId, "hello");
  const { PATH = "" } = process.env;
  const { id } = service.service.deps.processes.start({
    sessionId,
    command,
    cwd: service.workspace,
    env: { PATH },
  });
  return { sessionId, id };
}

rpcScenario(
  "process.list",
  "lists processes of the caller's sessions, or of one, without secrets",
  async (host, setting) => {
    registerSecret("canary-of-processes");
    const one = await withProcess(host, setting, "sleep 600 # canary-of-processes");
    const two = await withProcess(host, setting);
    const { processes } = await host.result("process.list", { session_id: one.sessionId });
    assert.deepEqual(
      [processes.length, processes[0].process_id, processes[0].status, processes[0].session_id],
      [1, one.id, "running", one.sessionId],
    );
    assert.ok(!processes[0].command.includes("canary"), processes[0].command);
    const all = (await host.result("process.list")).processes.map(
      (each: { process_id: string }) => each.process_id,
    );
    assert.deepEqual(all.toSorted(), [one.id, two.id].toSorted());
    await host.result("process.stop");
  },
);

rpcScenario("process.list", "reports how a process ended", async (host, setting) => {
  const { sessionId, id } = await withProcess(host, setting, "exit 3");
  await setting.service.service.deps.processes.wait(id, sessionId, {
    timeoutMs: 60_000,
    signal: new AbortController().signal,
  });
  assert.equal(
    (await host.result("process.list", { session_id: sessionId })).processes[0].status,
    "exited 3",
  );
});

rpcScenario("process.kill", "ends exactly this process; an ended one stays ended", async (host, setting) => {
  const one = await withProcess(host, setting);
  const two = await withProcess(host, setting);
  assert.deepEqual(await host.result("process.kill", { process_id: one.id, session_id: one.sessionId }), {
    killed: 1,
  });
  assert.deepEqual(await host.result("process.kill", { process_id: one.id }), { killed: 0 });
  const states = (await host.result("process.list")).processes.map(
    (each: { process_id: string; status: string }) => [each.process_id, each.status],
  );
  assert.deepEqual(Object.fromEntries(states), { [one.id]: "killed", [two.id]: "running" });
  await host.result("process.stop");
});

rpcScenario("process.kill 4044", "unknown, of another session, or another owner's", async (host, setting) => {
  const mine = await withProcess(host, setting);
  const empty = await openSession(host);
  const stranger = await setting.connect({ owner: `${setting.owner}-too` });
  for (const process_id of ["", "none", "1", `${mine.id}x`, "-1", "../1"]) {
    const { data } = await host.error("process.kill", { process_id }, 4044);
    assert.equal(data.reason, "no_such_process");
  }
  await host.error("process.kill", { process_id: mine.id, session_id: empty }, 4044);
  await stranger.error("process.kill", { process_id: mine.id }, 4044);
  await host.error("process.kill", { process_id: 1 }, -32602);
  assert.deepEqual(await host.result("process.stop"), { killed: 1 });
});

rpcScenario("process.stop", "all of the caller's, or those of one session", async (host, setting) => {
  const one = await withProcess(host, setting);
  await withProcess(host, setting);
  const stranger = await setting.connect({ owner: `${setting.owner}-too` });
  assert.deepEqual(await stranger.result("process.stop"), { killed: 0 });
  assert.deepEqual((await stranger.result("process.list")).processes, []);
  assert.deepEqual(await host.result("process.stop", { session_id: one.sessionId }), { killed: 1 });
  assert.deepEqual(await host.result("process.stop"), { killed: 1 });
  assert.deepEqual(await host.result("process.stop"), { killed: 0 });
});

rpcScenario(
  ["process.list 4001", "process.kill 4001", "process.stop 4001"],
  "the session is unknown, or another owner's",
  async (host, { connect, owner }) => {
    const other = await openSession(await connect({ owner: `${owner}-too` }));
    for (const session_id of ["none", "", other]) {
      await host.error("process.list", { session_id }, 4001);
      await host.error("process.kill", { process_id: "x", session_id }, 4001);
      await host.error("process.stop", { session_id }, 4001);
    }
  },
);
