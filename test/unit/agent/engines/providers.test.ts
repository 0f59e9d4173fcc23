import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { createModelEngine } from "../../../../src/agent/engines/model-engine.ts";
import { loadModel, type ProviderConfig, type SdkProvider } from "../../../../src/agent/engines/providers.ts";
import { createLog } from "../../../../src/base/observe.ts";
import { systemClock } from "../../../../src/base/time.ts";
import { startModelServer, type ModelRequest } from "../../../harness/openai-server.ts";
import { probe } from "./turn-probe.ts";

const KEY = "key-of-the-test";
const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "hi" }] }];

/** Runs a turn with the model `m/1` of a provider that refuses it. */
async function ask(provider: ProviderConfig): Promise<void> {
  const log = createLog("error", () => {});
  const engine = createModelEngine({ providers: [provider], clock: systemClock, log });
  const { end } = await probe(engine, { turn: { model: { provider: provider.name, id: "m/1" } } });
  assert.equal(end.stop, "error");
}

/** The request that a provider sends to the local server for the model `m/1`; the server refuses it. */
async function requestOf(
  config: Partial<ProviderConfig> & Pick<ProviderConfig, "type">,
): Promise<ModelRequest> {
  await using server = await startModelServer(() => ({ status: 400, body: "{}" }));
  await ask({ name: "mine", baseUrl: server.baseUrl, apiKey: KEY, ...config });
  return server.requests[0]!;
}

for (const type of ["openai", "openai_compatible", "openrouter"] as const) {
  test(`a provider of type ${type} with an address gets chat completions there, with its key`, async () => {
    const { path, headers, body } = await requestOf({ type });
    assert.equal(path, "/v1/chat/completions");
    assert.equal(headers["authorization"], `Bearer ${KEY}`);
    assert.equal(body.model, "m/1");
  });
}

test("a provider of type anthropic gets a messages request with its key", async () => {
  const { path, headers, body } = await requestOf({ type: "anthropic" });
  assert.equal(path, "/v1/messages");
  assert.equal(headers["x-api-key"], KEY);
  assert.equal(body.model, "m/1");
});

test("a provider of type google gets a streaming request, with its key in a header and not in the path", async () => {
  const { path, headers } = await requestOf({ type: "google" });
  assert.match(path, /^\/v1\/.*m\/1:streamGenerateContent/);
  assert.equal(headers["x-goog-api-key"], KEY);
  assert.ok(!path.includes(KEY));
});

for (const type of ["openai", "openai_compatible", "openrouter", "anthropic", "google"] as const) {
  test(`headers of a provider of type ${type} are sent with each request`, async () => {
    const { headers } = await requestOf({ type, headers: { "x-team": "blue" } });
    assert.equal(headers["x-team"], "blue");
  });

  test(`a provider of type ${type} without a key reads none from the environment`, async () => {
    const names = [
      "OPENAI_API_KEY",
      "ANTHROPIC_API_KEY",
      "GOOGLE_GENERATIVE_AI_API_KEY",
      "OPENROUTER_API_KEY",
    ];
    const before = names.map((name) => process.env[name]);
    for (const name of names) process.env[name] = "stray-key";
    try {
      await using server = await startModelServer(() => ({ status: 400, body: "{}" }));
      await ask({ name: "mine", type, baseUrl: server.baseUrl });
      assert.ok(!JSON.stringify(server.requests.map(({ headers }) => headers)).includes("stray-key"));
    } finally {
      for (const [index, name] of names.entries()) {
        if (before[index] === undefined) delete process.env[name];
        else process.env[name] = before[index];
      }
    }
  });
}

test("a trailing slash of the address does not double in the path", async () => {
  await using server = await startModelServer(() => ({ status: 400, body: "{}" }));
  await ask({ name: "mine", type: "openai_compatible", baseUrl: `${server.baseUrl}/` });
  assert.equal(server.requests[0]?.path, "/v1/chat/completions");
});

for (const [type, variable, official] of [
  ["openai", "OPENAI_BASE_URL", "https://api.openai.com"],
  ["anthropic", "ANTHROPIC_BASE_URL", "https://api.anthropic.com"],
] as const) {
  test(`a provider of type ${type} without an address uses the vendor's, whatever ${variable} says`, async () => {
    const before = process.env[variable];
    const originalFetch = globalThis.fetch;
    const asked: string[] = [];
    process.env[variable] = "http://127.0.0.1:1/stray";
    // Intercepts the request: nothing may leave the machine.
    globalThis.fetch = async (input) => {
      asked.push(input instanceof Request ? input.url : String(input));
      return new Response("{}", { status: 400 });
    };
    try {
      const model = await loadModel({ name: "mine", type, apiKey: KEY }, "m");
      await assert.rejects(async () => model.doStream({ prompt }), /.*/);
    } finally {
      globalThis.fetch = originalFetch;
      if (before === undefined) delete process.env[variable];
      else process.env[variable] = before;
    }
    assert.equal(asked.length, 1);
    assert.ok(asked[0]?.startsWith(`${official}/v1/`), asked[0]);
  });
}

test("a model of a provider is made once, and another provider's model of the same name is another", async () => {
  const provider: SdkProvider = { name: "mine", type: "openai", baseUrl: "http://127.0.0.1:1" };
  const model = await loadModel(provider, "m");
  assert.equal(await loadModel(provider, "m"), model);
  assert.notEqual(await loadModel(provider, "n"), model);
  assert.notEqual(await loadModel({ ...provider, baseUrl: "http://127.0.0.1:2" }, "m"), model);
});
