import assert from "node:assert/strict";
import { test } from "node:test";
import {
  createModelCatalog,
  type ModelCatalog,
  type ModelProvider,
  DEMO_MODEL,
  formatModel,
} from "../../../src/agent/model.ts";

const provider = (name: string, type: string, models: readonly string[] = []): ModelProvider => ({
  name,
  type,
  models,
});
const openai = provider("openai", "openai");
const anthropic = provider("anthropic", "anthropic");
const google = provider("google", "google");
const openrouter = provider("openrouter", "openrouter");
const local = provider("local", "openai_compatible");
const ollama = provider("ollama", "openai_compatible", ["qwen3:8b", "gpt-oss:20b"]);

const resolved = (catalog: ModelCatalog, name: string): string | undefined => {
  const ref = catalog.resolve(name);
  return ref && formatModel(ref);
};

interface Table {
  readonly title: string;
  readonly providers: readonly ModelProvider[];
  readonly defaultModel?: string;
  readonly names: Readonly<Record<string, string | undefined>>;
}

const tables: readonly Table[] = [
  {
    title: "a prefix counts only if it names a provider",
    providers: [local, openai],
    defaultModel: "local:qwen3:8b",
    names: {
      "local:qwen3:8b": "local:qwen3:8b",
      "qwen3:8b": "local:qwen3:8b",
      "openai:gpt-5.1": "openai:gpt-5.1",
      "openai:ft:gpt-4o:team::id": "openai:ft:gpt-4o:team::id",
      "local:claude-sonnet": "local:claude-sonnet",
      "local:a/b:c": "local:a/b:c",
      "Local:x": "local:Local:x",
      ":x": "local::x",
    },
  },
  {
    title: "a provider's name without a model is not a model",
    providers: [local],
    defaultModel: "local:x",
    names: { "local:": undefined, "demo:": undefined, "demo:other": undefined, "local::": "local::" },
  },
  {
    title: "a bare name goes to the provider that lists it, whatever its name tells",
    providers: [openai, provider("proxy", "openai_compatible", ["gpt-5.1", "claude-x"]), ollama],
    names: {
      "gpt-5.1": "proxy:gpt-5.1",
      "claude-x": "proxy:claude-x",
      "qwen3:8b": "ollama:qwen3:8b",
      "gpt-oss:20b": "ollama:gpt-oss:20b",
      "gpt-4o": "openai:gpt-4o",
    },
  },
  {
    title: "of two providers that list a name the first has it",
    providers: [provider("a", "openai_compatible", ["m"]), provider("b", "openai_compatible", ["m"])],
    names: { m: "a:m", "b:m": "b:m" },
  },
  {
    title: "a name that tells its maker goes to the maker's own provider, whatever that is called",
    providers: [
      openrouter,
      local,
      provider("work", "anthropic"),
      provider("brain", "openai"),
      provider("g", "google"),
    ],
    defaultModel: "local:x",
    names: {
      "claude-opus-4-5": "work:claude-opus-4-5",
      "gpt-5.1": "brain:gpt-5.1",
      "chatgpt-4o-latest": "brain:chatgpt-4o-latest",
      o1: "brain:o1",
      "o4-mini": "brain:o4-mini",
      "gemini-3-pro": "g:gemini-3-pro",
      "gpt-oss-20b": "local:gpt-oss-20b",
      "openai/gpt-oss-20b": "local:openai/gpt-oss-20b",
      orca: "local:orca",
      "my-claude-x": "local:my-claude-x",
    },
  },
  {
    title: "a maker's own provider takes its models also under the router's names",
    providers: [anthropic, openai, google, local],
    defaultModel: "local:x",
    names: {
      "anthropic/claude-x": "anthropic:claude-x",
      "anthropic:anthropic/claude-x": "anthropic:claude-x",
      "openai/gpt-5.1": "openai:gpt-5.1",
      "google:google/gemini-3-pro": "google:gemini-3-pro",
      "openai:anthropic/claude-x": "openai:anthropic/claude-x",
      "local:anthropic/claude-x": "local:anthropic/claude-x",
    },
  },
  {
    title: "a router takes the makers' names with the maker in front",
    providers: [openrouter],
    defaultModel: "openrouter:meta-llama/llama-4",
    names: {
      "claude-x": "openrouter:anthropic/claude-x",
      "gpt-5.1": "openrouter:openai/gpt-5.1",
      "gemini-3-pro": "openrouter:google/gemini-3-pro",
      "openrouter:claude-x": "openrouter:anthropic/claude-x",
      "anthropic/claude-x": "openrouter:anthropic/claude-x",
      "openrouter:anthropic/claude-x": "openrouter:anthropic/claude-x",
      "meta-llama/llama-4": "openrouter:meta-llama/llama-4",
      "deepseek/deepseek-r1:free": "openrouter:deepseek/deepseek-r1:free",
      "openrouter:auto": "openrouter:auto",
    },
  },
  {
    title: "a name that tells its maker goes to nobody where neither the maker nor a router is",
    providers: [local],
    defaultModel: "local:qwen3:8b",
    names: { "gpt-4o": undefined, "claude-x": undefined, "google/gemini-3-pro": undefined },
  },
  {
    title: "a provider that lists its models has no others by a bare name, but by its prefix",
    providers: [ollama],
    names: { "llama3:8b": undefined, "ollama:llama3:8b": "ollama:llama3:8b", "qwen3:8b": "ollama:qwen3:8b" },
  },
  {
    title: "without any provider there is the demo model alone",
    providers: [],
    names: {
      demo: "demo:demo",
      "demo:demo": "demo:demo",
      "gpt-4o": undefined,
      "openai:gpt-4o": undefined,
      "qwen3:8b": undefined,
      nothing: undefined,
    },
  },
  {
    title: "names that no header can carry are nobody's",
    providers: [local],
    defaultModel: "local:x",
    names: {
      "": undefined,
      " ": undefined,
      "two words": undefined,
      "local:a\nb": undefined,
      "local:\u00e9": undefined,
      "m\u0000": undefined,
      "a\n": undefined,
      ["a".repeat(250)]: `local:${"a".repeat(250)}`,
      ["a".repeat(251)]: undefined,
      [`local:${"a".repeat(250)}`]: `local:${"a".repeat(250)}`,
      [`local:${"a".repeat(251)}`]: undefined,
    },
  },
  {
    title: "names of parts that every object has are names like any other",
    providers: [local],
    defaultModel: "local:x",
    names: {
      ["__proto__"]: "local:__proto__",
      constructor: "local:constructor",
      "toString:x": "local:toString:x",
    },
  },
];

for (const { title, providers, defaultModel, names } of tables) {
  test(title, () => {
    const catalog = createModelCatalog({
      providers,
      ...(defaultModel === undefined ? {} : { defaultModel }),
    });
    for (const [name, expected] of Object.entries(names)) {
      assert.equal(resolved(catalog, name), expected, JSON.stringify(name));
    }
  });
}

test("what a name resolves to resolves to itself in its stored form", () => {
  const listing = provider("lists", "openai", ["openai/gpt-5.1", "gpt-4o"]);
  const routed = provider("routed", "openrouter", ["gpt-4o-mini"]);
  for (const { providers, defaultModel, names } of [
    ...tables,
    {
      providers: [listing, routed],
      defaultModel: undefined,
      names: { "openai/gpt-5.1": "", "gpt-4o-mini": "", "lists:openai/gpt-5.1": "" },
    },
  ]) {
    const catalog = createModelCatalog({
      providers,
      ...(defaultModel === undefined ? {} : { defaultModel }),
    });
    for (const name of Object.keys(names)) {
      const ref = catalog.resolve(name);
      if (ref) assert.deepEqual(catalog.resolve(formatModel(ref)), ref, JSON.stringify(name));
    }
    assert.deepEqual(catalog.resolve(formatModel(catalog.default)), catalog.default);
  }
});

const defaults: readonly (readonly [string, readonly ModelProvider[], string | undefined, string])[] = [
  ["nothing is configured", [], undefined, "demo:demo"],
  ["no provider lists a model", [openai, local], undefined, "demo:demo"],
  ["a provider lists models", [openai, ollama], undefined, "ollama:qwen3:8b"],
  [
    "the first listed model has no name that a header can carry",
    [provider("lm", "openai_compatible", ["mod\u00e8le", "two words", "plain"])],
    undefined,
    "lm:plain",
  ],
  ["a name is configured with its provider", [openai, ollama], "openai:gpt-5.1", "openai:gpt-5.1"],
  ["a bare name is configured", [ollama, openai], "gpt-5.1", "openai:gpt-5.1"],
  [
    "a bare name is configured that only a router has",
    [openrouter],
    "claude-x",
    "openrouter:anthropic/claude-x",
  ],
  ["the demo model is configured beside others", [openai, ollama], "demo", "demo:demo"],
];

for (const [title, providers, defaultModel, expected] of defaults) {
  test(`when ${title} the default is ${expected}`, () => {
    const catalog = createModelCatalog({
      providers,
      ...(defaultModel === undefined ? {} : { defaultModel }),
    });
    assert.equal(formatModel(catalog.default), expected);
  });
}

for (const name of ["anthropic:claude-x", "claude-x", "openai:", "", "two words", "qwen3:8b"]) {
  test(`a default of ${JSON.stringify(name)} without a provider is refused with the known names`, () => {
    assert.throws(
      () => createModelCatalog({ providers: [openai], defaultModel: name }),
      (error) => {
        assert.ok(error instanceof RangeError);
        assert.ok(error.message.includes(`model.default ${JSON.stringify(name)}`), error.message);
        assert.match(error.message, /\(openai, demo\)/);
        return true;
      },
    );
  });
}

test("the demo model cannot be taken over by a provider of its name", () => {
  const catalog = createModelCatalog({ providers: [provider("demo", "openai_compatible", ["other"])] });
  assert.deepEqual(catalog.default, DEMO_MODEL);
  assert.equal(catalog.resolve("demo:other"), undefined);
  assert.deepEqual(
    catalog.providers.map(({ type }) => type),
    ["demo"],
  );
});

test("the providers are listed in their order, the demo model last", () => {
  const { providers } = createModelCatalog({ providers: [local, openai] });
  assert.deepEqual(
    providers.map(({ name }) => name),
    ["local", "openai", "demo"],
  );
});

test("a model's context is what its provider says, else what its maker publishes, else the default", () => {
  const catalog = createModelCatalog({
    providers: [{ ...local, contextTokens: 32_000 }, ollama, openai, openrouter],
    defaultContextTokens: 64_000,
  });
  const contextOf = (name: string) => catalog.contextTokensOf(catalog.resolve(name)!);
  assert.equal(contextOf("local:gpt-4o"), 32_000);
  assert.equal(contextOf("openai:gpt-4o-mini"), 128_000);
  assert.equal(contextOf("openai:gpt-4.1"), 1_047_576);
  assert.equal(contextOf("openrouter:anthropic/claude-sonnet-4-5"), 200_000);
  assert.equal(contextOf("ollama:qwen3:8b"), 64_000);
  assert.equal(contextOf("ollama:my-gpt-4o"), 64_000);
  assert.equal(contextOf("demo"), 64_000);
  const plain = createModelCatalog({ providers: [] });
  assert.equal(plain.contextTokensOf(DEMO_MODEL), 128_000);
});

test("a list for pickers names each provider's models in full, and says which have a key", () => {
  const catalog = createModelCatalog({
    providers: [{ ...openai, hasKey: true }, ollama, provider("odd", "openai_compatible", ["two words"])],
  });
  assert.deepEqual(catalog.list(), [
    { name: "openai", type: "openai", models: [], hasKey: true, isDefault: false },
    {
      name: "ollama",
      type: "openai_compatible",
      models: ["ollama:qwen3:8b", "ollama:gpt-oss:20b"],
      hasKey: false,
      isDefault: true,
    },
    { name: "odd", type: "openai_compatible", models: [], hasKey: false, isDefault: false },
    { name: "demo", type: "demo", models: ["demo:demo"], hasKey: true, isDefault: false },
  ]);
});
