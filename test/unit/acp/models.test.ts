import assert from "node:assert/strict";
import { test } from "node:test";
import { RequestError } from "@agentclientprotocol/sdk/unstable";
import { legacyModels, modelGroups, readModel } from "../../../src/acp/session/options.ts";
import { createModelCatalog, type ModelProvider } from "../../../src/agent/model.ts";

const catalog = (...providers: readonly ModelProvider[]) => createModelCatalog({ providers });
const local = { name: "local", type: "openai_compatible", models: ["small", "large"] };
const shut = { name: "shut", type: "anthropic", models: ["claude-x"], hasKey: false };
const open = { name: "open", type: "openai_compatible", models: [] };

const names = (groups: ReturnType<typeof modelGroups>) =>
  groups.map(({ group, options }) => [group, options.map(({ value }) => value)]);

test("models are grouped by provider, without unusable ones", () => {
  const groups = modelGroups(catalog(local, shut, open), "local:small");
  assert.deepEqual(names(groups), [
    ["local", ["local:small", "local:large"]],
    ["demo", ["demo:demo"]],
  ]);
  assert.deepEqual(groups[0]?.options[1], { value: "local:large", name: "large" });
});

test("the current model is always listed, even if it is unlisted or its provider is gone", () => {
  for (const current of ["open:llama3:8b", "local:unlisted", "gone:model", "nonsense"]) {
    const models = catalog(local, open);
    const [group] = modelGroups(models, current).filter(({ options }) =>
      options.some(({ value }) => value === current),
    );
    assert.ok(group);
    assert.equal(group.group, current.split(":")[0]);
    assert.ok(group.options.every(({ name }) => name !== ""));
    const { currentModelId, availableModels } = legacyModels(models, current);
    assert.equal(currentModelId, current);
    assert.ok(availableModels.some(({ modelId }) => modelId === current));
  }
});

test("at most 200 models are listed, including the current one", () => {
  const many = { ...local, models: Array.from({ length: 5_000 }, (_, index) => `m${index}`) };
  for (const current of ["local:m0", "local:m4999", "gone:x"]) {
    const values = modelGroups(catalog(many), current).flatMap(({ options }) =>
      options.map(({ value }) => value),
    );
    assert.equal(values.length, 200);
    assert.equal(new Set(values).size, 200);
    assert.ok(values.includes(current));
  }
});

test("a model is chosen by full or short name, and unknown names are rejected with a suggestion", () => {
  const models = catalog(local, shut, open);
  const read = (wanted: unknown) => readModel(models, wanted, { current: "gone:x", param: "value" });
  assert.equal(read("local:large"), "local:large");
  assert.equal(read("large"), "local:large");
  assert.equal(read("open:anything"), "open:anything", "nobody said which it has");
  assert.equal(read("gone:x"), "gone:x", "what is chosen may be chosen again");
  for (const [wanted, hint] of [
    ["local:lrage", /Did you mean "local:large"\?/],
    ["local:unlisted", /Available models: local:small, local:large, demo:demo\./],
    ["shut:claude-x", /Available models: local:small/],
    ["", /Available models/],
    ["\u0000".repeat(10_000), /Available models/],
    [7, /must be the name of a model/],
  ] as const) {
    assert.throws(
      () => read(wanted),
      (error: unknown) =>
        error instanceof RequestError &&
        error.code === -32602 &&
        hint.test(error.message) &&
        error.message.length < 2_500,
      String(wanted).slice(0, 20),
    );
  }
});
