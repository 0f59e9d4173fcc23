import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readConfig } from "../../../src/config/config.ts";
import { resolvePaths } from "../../../src/config/home.ts";
import { resolveProviders } from "../../../src/config/providers.ts";

function providersOf(providers: object, env = {}) {
  return resolveProviders(readConfig(JSON.stringify({ model: { providers } })).config, env);
}

describe("resolveProviders", () => {
  it("is empty without configuration and environment", () => assert.deepEqual(providersOf({}), []));

  it("returns the configured providers in the order of the file", () => {
    const providers = {
      local: {
        type: "openai_compatible",
        base_url: "http://127.0.0.1:1/v1",
        models: ["a"],
        timeout_seconds: 1.5,
      },
      work: { type: "anthropic", api_key: "env:WORK", headers: { "x-a": "env:A", "x-b": "b" } },
    };
    assert.deepEqual(providersOf(providers, { WORK: "w", A: "a" }), [
      {
        name: "local",
        type: "openai_compatible",
        baseUrl: "http://127.0.0.1:1/v1",
        models: ["a"],
        timeoutMs: 1500,
      },
      {
        name: "work",
        type: "anthropic",
        apiKey: "w",
        headers: { "x-a": "a", "x-b": "b" },
        timeoutMs: 120_000,
      },
    ]);
  });

  for (const [name, variable] of [
    ["openai", "OPENAI_API_KEY"],
    ["anthropic", "ANTHROPIC_API_KEY"],
    ["google", "GOOGLE_GENERATIVE_AI_API_KEY"],
    ["google", "GEMINI_API_KEY"],
    ["openrouter", "OPENROUTER_API_KEY"],
  ] as const) {
    it(`makes ${name} available when ${variable} is all there is`, () => {
      assert.deepEqual(providersOf({}, { [variable]: "k" }), [
        { name, type: name, apiKey: "k", timeoutMs: 120_000 },
      ]);
    });
  }

  it("prefers the configured key to the conventional one, and adds no second provider of that name", () => {
    const env = { OPENAI_API_KEY: "conventional" };
    assert.deepEqual(
      providersOf({ openai: { type: "openai", api_key: "own" } }, env).map(({ apiKey }) => apiKey),
      ["own"],
    );
    assert.deepEqual(
      providersOf({ openai: { type: "openai" } }, env).map(({ apiKey }) => apiKey),
      ["conventional"],
    );
  });

  it("never sends a conventional key to a compatible server", () => {
    const providers = { mine: { type: "openai_compatible", base_url: "http://x" } };
    const [mine] = providersOf(providers, { OPENAI_API_KEY: "k" });
    assert.equal(mine?.apiKey, undefined);
  });

  it("names the key and the variable of a reference that leads nowhere", () => {
    assert.throws(
      () => providersOf({ w: { type: "openai", api_key: "env:NOPE" } }),
      /model\.providers\.w\.api_key refers to the variable NOPE/,
    );
  });
});

describe("resolvePaths", () => {
  const paths = (text: string, env = {}) =>
    resolvePaths({ config: readConfig(text).config, env, home: "/h", userHome: "/home/ann" });

  it("keeps everything in the home by default", () => {
    assert.deepEqual(paths(""), {
      agentHome: "/h",
      userHome: "/home/ann",
      workspace: "/h/workspace",
      databaseUrl: "/h/state.db",
    });
  });

  it("resolves configured paths relative to the home", () => {
    const { workspace, databaseUrl } = paths("agent: { workspace: ~/w }\ndatabase: { url: env:DB }", {
      DB: "postgres://d",
    });
    assert.deepEqual([workspace, databaseUrl], ["/home/ann/w", "postgres://d"]);
    assert.equal(paths("agent: { workspace: sub }").workspace, "/h/sub");
  });
});
