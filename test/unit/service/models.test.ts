/** The contexts that model servers report, as a service asks for them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openModels } from "../../../src/app/models.ts";
import { createLog } from "../../../src/base/observe.ts";
import { startModelServer, type Pages } from "../../harness/openai-server.ts";
import { testConfig } from "../../harness/service.ts";

const log = createLog("error", () => {});
const models = (baseUrl: string, more: object = {}) =>
  testConfig({
    model: {
      default: "box:m",
      providers: { box: { type: "openai_compatible", base_url: baseUrl, ...more } },
    },
  });

async function contextOf(pages: Pages, options: { readonly loads?: boolean } = {}, more: object = {}) {
  await using server = await startModelServer([], pages);
  const { catalog } = await openModels(models(server.baseUrl, more), {}, log);
  await catalog.refreshContext(catalog.default, options);
  const tokens = catalog.contextTokensOf(catalog.default);
  await catalog.refreshContext(catalog.default, options);
  return { tokens, asked: server.asked };
}

const listed = { "GET /v1/models": { data: [{ id: "m" }] } };
const shown = {
  parameters: 'stop "x"\ntemperature 0.7',
  model_info: { "general.architecture": "qwen3", "qwen3.context_length": 40_960 },
};
const cases: readonly (readonly [string, Pages, number])[] = [
  ["vLLM", { "GET /v1/models": { data: [{ id: "m", max_model_len: 9_000 }] } }, 9_000],
  ["llama.cpp", { ...listed, "GET /props": { default_generation_settings: { n_ctx: 8_192 } } }, 8_192],
  [
    "LM Studio",
    {
      ...listed,
      "GET /api/v0/models": { data: [{ id: "m", max_context_length: 32_000, loaded_context_length: 6_000 }] },
    },
    6_000,
  ],
  [
    "Ollama with a loaded model",
    {
      ...listed,
      "POST /api/show": shown,
      "GET /api/ps": { models: [{ name: "m:latest", context_length: 16_384 }] },
    },
    16_384,
  ],
  [
    "Ollama with a model whose file sets it",
    { ...listed, "POST /api/show": { ...shown, parameters: "num_ctx                        12000" } },
    12_000,
  ],
  ["Ollama with a model that is not loaded", { ...listed, "POST /api/show": shown }, 4_096],
  ["a server that does not say", listed, 128_000],
  [
    "a server that reports nonsense",
    { "GET /v1/models": { data: [{ id: "m", max_model_len: -3.5 }] } },
    128_000,
  ],
];

for (const [who, pages, wanted] of cases) {
  test(`the context of a model of ${who} is ${wanted} tokens`, async () => {
    assert.equal((await contextOf(pages)).tokens, wanted);
  });
}

test("a server is asked once, not for each turn", async () => {
  const { asked } = await contextOf({ "GET /v1/models": { data: [{ id: "m", max_model_len: 9_000 }] } });
  assert.deepEqual(asked, ["GET /v1/models"]);
});

test("a configured context is not asked for", async () => {
  const { tokens, asked } = await contextOf(listed, {}, { context_tokens: 5_000 });
  assert.deepEqual([tokens, asked], [5_000, []]);
});

test("before a turn, Ollama loads the model, and the context that it then has is used", async () => {
  let isLoaded = false;
  const { tokens, asked } = await contextOf(
    {
      ...listed,
      "POST /api/show": shown,
      "GET /api/ps": (response) => {
        const loaded = isLoaded ? [{ name: "m:latest", context_length: 32_768 }] : [];
        response.end(JSON.stringify({ models: loaded }));
      },
      "POST /api/generate": (response, body) => {
        isLoaded = (JSON.parse(body) as { model: string }).model === "m";
        response.end("{}");
      },
    },
    { loads: true },
  );
  assert.equal(tokens, 32_768);
  assert.equal(asked.filter((page) => page === "POST /api/generate").length, 1);
});

test("an address on another machine is asked for its list only", async () => {
  const { isLocal } = await import("../../../src/app/model-servers.ts");
  assert.deepEqual(
    ["http://127.0.0.1:1/v1", "http://localhost/v1", "http://[::1]:2", "https://api.example/v1"].map(isLocal),
    [true, true, true, false],
  );
});

for (const [what, model, env, wanted] of [
  ["a known maker", "openai:gpt-5.1", {}, /openai:gpt-5\.1 cannot answer: .*OPENAI_API_KEY is not set/],
  ["a name that shows its maker", "claude-9", {}, /claude-9 cannot answer: .*ANTHROPIC_API_KEY is not set/],
  ["nobody", "nobody:m", {}, /belongs to no configured provider/],
] as const) {
  test(`a default model of ${what} without a key or provider is refused in words that help`, async () => {
    await assert.rejects(openModels(testConfig({ model: { default: model } }), env, log), wanted);
  });
}

test("a default model of a local server needs neither a provider nor an answer", async () => {
  const config = testConfig({
    model: { default: "tiny:m", local_servers: { tiny: "http://127.0.0.1:9/v1" } },
  });
  const { catalog, local } = await openModels(config, {}, log);
  assert.deepEqual([catalog.default, local], [{ provider: "tiny", id: "m" }, undefined]);
});

test("a provider of the configuration without a key cannot have the default model, unless another engine answers", async () => {
  const work = { type: "anthropic" };
  const config = testConfig({ model: { default: "work:claude-x", providers: { work } } });
  await assert.rejects(
    openModels(config, {}, log),
    /the provider work has no API key, and ANTHROPIC_API_KEY/,
  );
  const { catalog } = await openModels(config, {}, log, { needsKey: false });
  assert.deepEqual(catalog.default, { provider: "work", id: "claude-x" });
});

test("a key without a chosen model stops unattended runs, and a chosen model does not", async () => {
  const env = { OPENAI_API_KEY: "a-key-of-nobody-at-all" };
  const whyUnchosen = async (model: object, options = {}) =>
    (await openModels(testConfig({ model }), env, log, options)).catalog.whyUnchosen?.();
  assert.match((await whyUnchosen({})) ?? "", /^OPENAI_API_KEY is set, but no model is chosen\./);
  assert.equal(await whyUnchosen({}, { needsKey: false }), undefined);
  assert.equal(await whyUnchosen({ default: "openai:gpt-5.1" }), undefined);
  assert.equal(await whyUnchosen({ default: "demo:demo" }), undefined);
  const none = await openModels(testConfig({ model: { detect_local: false } }), {}, log);
  assert.equal(none.catalog.whyUnchosen?.(), undefined);
});

test("a server that accepts and says nothing is the reason why no model answers", async () => {
  await using server = await startModelServer([], { "GET /v1/models": () => {} });
  const config = testConfig({ model: { local_servers: { slow: server.baseUrl } } });
  const found = await openModels(config, {}, log);
  assert.ok(found.catalog.whyNone?.()?.startsWith(`A server at ${server.host} did not answer in time`));
  assert.deepEqual(found.local?.unanswered, [server.host]);
});

test("another default model is chosen while the service runs, if its provider is in use", async () => {
  await using server = await startModelServer([], {});
  const found = await openModels(models(server.baseUrl, { models: ["m", "n"] }), {}, log);
  assert.deepEqual([found.setDefault("box:n"), found.catalog.default], [true, { provider: "box", id: "n" }]);
  assert.equal(found.setDefault("nowhere:n"), false);
  assert.equal(found.setDefault("openai:gpt-5.1"), false);
  assert.deepEqual(found.catalog.default, { provider: "box", id: "n" });
  assert.deepEqual([found.setDefault(undefined), found.catalog.default.id], [true, "m"]);
});
