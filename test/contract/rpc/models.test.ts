import assert from "node:assert/strict";
import { openSession, rpcScenario } from "./scenario.ts";

rpcScenario(
  "model.options",
  {
    title: "lists the providers with their models, and which are ready",
    providers: [
      { name: "openai", type: "openai", models: ["gpt-a", "gpt-b"], hasKey: true },
      { name: "anthropic", type: "anthropic", models: ["claude-a"], hasKey: false },
      { name: "local", type: "openai_compatible", models: [], hasKey: false },
    ],
  },
  async (host) => {
    const session_id = await openSession(host);
    const options = await host.result("model.options", { session_id, refresh: true });
    assert.deepEqual([options.model, options.provider], ["gpt-a", "openai"]);
    const seen = options.providers.map((each: (typeof options.providers)[number]) => [
      each.slug,
      each.total_models,
      each.is_current,
      each.authenticated,
      each.warning !== undefined,
    ]);
    assert.deepEqual(seen, [
      ["openai", 2, true, true, false],
      ["anthropic", 1, false, false, true],
      ["local", 0, false, true, false],
      ["demo", 1, false, true, false],
    ]);
    assert.deepEqual(options.providers[0].models, ["gpt-a", "gpt-b"]);
    const { slug, models } = options.providers[0];
    const set = await host.result("config.set", {
      key: "model",
      value: `${models[1]} --provider ${slug}`,
      session_id,
    });
    assert.equal(set.value, "openai:gpt-b");
    await host.result("config.set", { key: "model", value: "demo:demo", session_id });
    const now = await host.result("model.options", { session_id });
    assert.deepEqual([now.model, now.provider], ["demo", "demo"]);
    assert.equal((await host.result("model.options")).provider, "openai");
  },
);

rpcScenario("model.options 4001", "the session is unknown", async (host) => {
  await host.error("model.options", { session_id: "none" }, 4001);
  await host.error("model.options", { session_id: 5 }, -32602);
});
