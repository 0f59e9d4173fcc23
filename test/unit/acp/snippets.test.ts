import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { authMethodsFor, readFeatures } from "../../../src/acp/wire/connection.ts";
import { missingProvider } from "../../../src/acp/session/open.ts";
import { snippets, type Launcher } from "../../../src/acp/wire/snippets.ts";
import { createModelCatalog, type ModelProvider } from "../../../src/agent/model.ts";

const launcher: Launcher = { command: "/opt/node", args: ["/opt/agentd.mjs"], env: { AGENTD_HOME: "/h" } };
const facts = { name: "@agentd/agentd", version: "1.2.3", description: "An agent.", license: "MIT" };

function registryId(name: string): string {
  return (snippets({ name, launcher, package: facts }).registry as { readonly id: string }).id;
}

test("each editor's block starts the same command, under the editor's own key", () => {
  const made = snippets({ name: "Mine", launcher, package: facts });
  const start = { command: "/opt/node", args: ["/opt/agentd.mjs", "acp"], env: { AGENTD_HOME: "/h" } };
  assert.deepEqual(made.zed, { agent_servers: { Mine: { type: "custom", ...start } } });
  assert.deepEqual(made.vscode, { "acp.agents": { Mine: start } });
  assert.deepEqual((made.jetbrains as { agent_servers: unknown }).agent_servers, { Mine: start });
});

test("every name yields an id that the registry accepts", () => {
  assert.equal(registryId("My Agent 2"), "my-agent-2");
  assert.equal(registryId("2 – Agent"), "agent");
  assert.equal(registryId("日本"), "agentd");
  fc.assert(fc.property(fc.string(), (name) => assert.match(registryId(name), /^[a-z][a-z0-9-]*$/)));
});

test("the terminal method has the format that the client understands", () => {
  const told = (capabilities: Parameters<typeof readFeatures>[0]) =>
    authMethodsFor({ features: readFeatures(capabilities), launcher: () => launcher });
  assert.deepEqual(
    told({}).map(({ id }) => id),
    ["provider"],
  );
  assert.equal(told({ auth: { terminal: true } })[1]?._meta, undefined);
  const command = { command: "/opt/node", args: ["/opt/agentd.mjs", "acp", "--setup"], env: launcher.env };
  for (const auth of [{}, { auth: { terminal: true } }]) {
    const [, setup] = told({ ...auth, _meta: { "terminal-auth": true } });
    assert.deepEqual(setup?._meta?.["terminal-auth"], { ...command, label: "Set up in terminal" });
  }
});

test("a provider counts as missing when the default model needs a key that is not set", () => {
  const missing = (provider: Partial<ModelProvider>) => {
    const known = { name: "mine", models: ["m"], type: "openai", ...provider };
    return missingProvider(createModelCatalog({ providers: [known], defaultModel: "mine:m" }));
  };
  assert.equal(missing({ hasKey: true }), undefined);
  assert.equal(missing({ type: "openai_compatible", hasKey: false }), undefined);
  assert.match(missing({ hasKey: false }) ?? "", /^mine:m is not usable.*`agentd setup --provider openai`/);
  assert.equal(
    missingProvider(createModelCatalog({ providers: [] })),
    undefined,
    "the demo model needs none",
  );
});
