import assert from "node:assert/strict";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openSession, rpcScenario, type RpcSetting } from "./scenario.ts";

const own = (title: string) => ({ title, config: {} });

/** In the home of the service. */
async function homeFile({ service }: RpcSetting, name: string): Promise<string> {
  await mkdir(join(service.home, "agentd"), { recursive: true });
  return join(service.home, "agentd", name);
}

rpcScenario("reload.mcp", own("asks for a confirmation, and again the next time"), async (host) => {
  const asked = await host.result("reload.mcp", {});
  assert.equal(asked.status, "confirm_required");
  assert.match(asked.message, /reload-mcp now/);
  assert.equal((await host.result("reload.mcp", { confirm: true })).status, "reloaded");
  assert.equal((await host.result("reload.mcp")).status, "confirm_required");
});

rpcScenario(
  "reload.mcp",
  own("always is saved in the file, for every process of the home"),
  async (host, setting) => {
    assert.equal((await host.result("reload.mcp", { always: true })).status, "reloaded");
    assert.match(await readFile(await homeFile(setting, "config.yaml"), "utf8"), /confirm_reload: false/);
    const other = await setting.connect({ owner: "somebody-else" });
    assert.equal((await other.result("reload.mcp")).status, "reloaded");
    await host.result("config.set", { key: "mcp.confirm_reload", value: true });
    assert.equal((await host.result("reload.mcp")).status, "confirm_required");
  },
);

rpcScenario(
  ["reload.mcp", "event status.update", "event session.info"],
  "all clients are notified of the start, the end and the new session state",
  async (host, { connect, owner }) => {
    const session_id = await openSession(host);
    const other = await connect({ owner: `${owner}-too` });
    const other_id = await openSession(other);
    const [from, too] = [host.frames.length, other.frames.length];
    await host.result("reload.mcp", { confirm: true, session_id });
    for (const [each, id, at] of [
      [host, session_id, from],
      [other, other_id, too],
    ] as const) {
      const began = await each.event("status.update", undefined, at);
      assert.deepEqual(began.payload, { kind: "status", text: "Reconnecting the MCP servers." });
      await each.event("session.info", (event) => event.session_id === id, at);
      await each.event("status.update", ({ payload }) => payload.text === "ready", at);
      const types = each.frames
        .slice(at)
        .flatMap(({ method, params }) => (method === "event" ? [params.type] : []));
      assert.deepEqual(types, ["status.update", "session.info", "status.update"]);
    }
  },
);

rpcScenario(
  "reload.mcp",
  {
    title: "a server that cannot start is reported in one line",
    config: { mcp: { servers: { broken: { command: "/no/such/program" } }, start_timeout_seconds: 5 } },
  },
  async (host) => {
    const { status, message } = await host.result("reload.mcp", { confirm: true });
    assert.equal(status, "reloaded");
    assert.match(message, /^broken: failed/);
  },
);

rpcScenario("reload.mcp 4001", "the session is unknown", async (host) => {
  await host.error("reload.mcp", { session_id: "none", confirm: true }, 4001);
  for (const bad of [{ confirm: "yes" }, { always: 1 }]) await host.error("reload.mcp", bad, -32602);
});

rpcScenario("reload.mcp 5015", own("the opt-out cannot be saved"), async (host, setting) => {
  await rm(await homeFile(setting, "config.yaml"), { force: true });
  await mkdir(await homeFile(setting, "config.yaml"));
  const { data } = await host.error("reload.mcp", { always: true }, 5015);
  assert.equal(data.reason, "reload_failed");
});

rpcScenario(
  "reload.env",
  own("counts new, changed and removed variables, and reveals none"),
  async (host, setting) => {
    const path = await homeFile(setting, ".env");
    assert.deepEqual(await host.result("reload.env"), { updated: 0 });
    await writeFile(path, "ONE=canary-first-value\nTWO=2\n", { mode: 0o600 });
    assert.deepEqual(await host.result("reload.env"), { updated: 2 });
    await writeFile(path, "ONE=canary-other-value\n", { mode: 0o600 });
    assert.deepEqual(await host.result("reload.env", { ignored: true }), { updated: 2 });
    assert.ok(!JSON.stringify([host.frames, setting.service.logLines]).includes("canary"));
  },
);

rpcScenario("reload.env 5015", own("the file cannot be read"), async (host, setting) => {
  await mkdir(await homeFile(setting, ".env"));
  const { message } = await host.error("reload.env", {}, 5015);
  assert.match(message, /could not be reloaded/);
  assert.deepEqual(await host.result("ping"), { pong: true });
});
