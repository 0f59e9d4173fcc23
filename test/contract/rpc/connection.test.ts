import assert from "node:assert/strict";
import { gatewayEvents } from "../../../generated/gateway/host.gen.ts";
import { gatewayRequests } from "../../../generated/gateway/rpc.gen.ts";
import type { Json } from "../../harness/rpc.ts";
import { openSession, rpcScenario, takeTurn } from "./scenario.ts";

rpcScenario(
  "rpc.discover",
  "returns the first document, with the second one's methods and the events",
  async (host) => {
    const document = await host.result("rpc.discover");
    const names = document.methods.map(({ name }: Json) => name);
    assert.deepEqual(names.toSorted(), Object.keys(gatewayRequests).toSorted());
    const asked = document["x-client-methods"].map(({ name }: Json) => name);
    assert.deepEqual(asked.toSorted(), ["approval", "clarify", "event", "secret", "sudo"]);
    assert.deepEqual(
      Object.keys(document["x-event-types"]).toSorted(),
      Object.keys(gatewayEvents).toSorted(),
    );
    assert.deepEqual(danglingReferences(document), []);
  },
);

rpcScenario("gateway.capabilities", "returns what gateway.ready said, and all names", async (host) => {
  const { payload } = await host.event("gateway.ready");
  const { protocol, server, capabilities, limits } = payload;
  const found = await host.result("gateway.capabilities");
  assert.partialDeepStrictEqual(found, { protocol, server, capabilities, limits });
  assert.deepEqual(found.methods.toSorted(), Object.keys(gatewayRequests).toSorted());
  assert.deepEqual(found.events.toSorted(), Object.keys(gatewayEvents).toSorted());
  assert.deepEqual(found.requests, ["approval", "clarify", "sudo", "secret"]);
});

rpcScenario("client.capabilities", "the host's capabilities are stored and answered", async (host) => {
  const done = await host.result("client.capabilities", {
    protocol_version: 1,
    client: { name: "n".repeat(1000), version: "1" },
    server_requests: true,
    events: { opt_out: ["thinking.delta"], deltas: "final" },
  });
  assert.deepEqual(done, {
    protocol: { version: 1 },
    server_requests: ["approval", "clarify", "sudo", "secret"],
    declines_not_shown: false,
  });
  await takeTurn(host, await openSession(host), "hello");
  const types = host.events().map(({ type }) => type);
  assert.ok(types.includes("message.complete") && !types.some((type) => type.endsWith(".delta")));
});

rpcScenario("client.capabilities", "a client that declares nothing speaks version 1", async (host) => {
  const done = await host.result("client.capabilities", {});
  assert.deepEqual([done.protocol.version, done.server_requests], [1, []]);
});

rpcScenario(
  "client.capabilities 4026",
  "an unsupported version is refused with the supported ones",
  async (host) => {
    for (const protocol_version of [0, 2, -1, Number.MAX_SAFE_INTEGER]) {
      const { data } = await host.error("client.capabilities", { protocol_version }, 4026);
      assert.deepEqual(
        [data.reason, data.supported],
        ["unsupported_protocol_version", { min_version: 1, version: 1 }],
      );
    }
    for (const bad of [{ protocol_version: "1" }, { events: { deltas: "some" } }, { server_requests: 1 }]) {
      await host.error("client.capabilities", bad, -32602);
    }
  },
);

rpcScenario(["ping", "gateway.ping"], "both are answered, with parameters or without", async (host) => {
  for (const method of ["ping", "gateway.ping"]) {
    assert.deepEqual(await host.result(method), { pong: true });
    assert.deepEqual(await host.result(method, { nobody: "knows this" }), { pong: true });
  }
});

rpcScenario("setup.status", "the demo model is enough for a session, and is reported", async (host) => {
  assert.deepEqual(await host.result("setup.status"), {
    provider_configured: true,
    model: "demo:demo",
    demo: true,
  });
});

rpcScenario(
  "setup.status",
  {
    title: "a provider without a key is not ready",
    providers: [{ name: "openai", type: "openai", models: ["gpt-x"], hasKey: false }],
  },
  async (host) => {
    const status = await host.result("setup.status");
    assert.deepEqual(status, { provider_configured: false, model: "openai:gpt-x", demo: false });
  },
);

rpcScenario(
  "setup.status",
  {
    title: "a self-hosted provider needs no key",
    providers: [{ name: "local", type: "openai_compatible", models: ["m"], hasKey: false }],
  },
  async (host) => {
    const status = await host.result("setup.status");
    assert.deepEqual(status, { provider_configured: true, model: "local:m", demo: false });
  },
);

rpcScenario("pet.cells", "pet.cells is always disabled", async (host) => {
  assert.deepEqual(await host.result("pet.cells", { state: "idle", graphics: null }), { enabled: false });
});

/** References of the document to places of it that are not there. */
function danglingReferences(document: Json): readonly string[] {
  const missing: string[] = [];
  const look = (value: Json): void => {
    if (typeof value !== "object" || value === null) return;
    if (typeof value.$ref === "string") {
      const path = value.$ref.startsWith("#/") ? value.$ref.slice(2).split("/") : ["outside"];
      if (path.reduce((at: Json, key: string) => at?.[key], document) === undefined) missing.push(value.$ref);
    }
    for (const each of Object.values(value)) look(each);
  };
  look(document);
  return missing;
}
