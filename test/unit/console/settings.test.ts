import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { configSchema } from "../../../generated/config/schema.gen.ts";
import { mergePatch } from "../../../src/base/data.ts";
import { appliesAt } from "../../../src/config/patch.ts";
import {
  changedKeys,
  parsed,
  patchOf,
  searched,
  sectionsOf,
  textOf,
  type Json,
  type Schema,
  type Setting,
} from "../../../src/console/pages/settings/schema.ts";

const sections = sectionsOf(configSchema as Schema);
const all = sections.flatMap(({ settings }) => settings);

function settingOf(key: string): Setting {
  const found = all.find((setting) => setting.key === key);
  assert.ok(found, key);
  return found;
}

test("every key of the configuration is one setting, with the kind of its input", () => {
  assert.equal(new Set(all.map(({ key }) => key)).size, all.length);
  assert.equal(settingOf("log.level").kind, "choice");
  assert.equal(settingOf("model.detect_local").kind, "switch");
  assert.equal(settingOf("agent.max_steps").kind, "number");
  assert.equal(settingOf("delivery.retry_seconds").kind, "list");
  assert.equal(settingOf("model.providers").kind, "json");
  assert.equal(settingOf("timezone").kind, "text");
  assert.ok(sections.find(({ name }) => name === "general")?.settings.includes(settingOf("timezone")));
});

test("secrets are write-only inputs, with the variable that sets them", () => {
  const token = settingOf("platforms.telegram.token");
  assert.deepEqual([token.kind, token.variable], ["secret", "TELEGRAM_BOT_TOKEN"]);
  assert.equal(settingOf("api_server.key").kind, "secret");
});

test("a setting says when a change takes effect as the server does", () => {
  for (const { key, path, applies } of all) assert.equal(applies, appliesAt(path), key);
});

test("a search finds settings by words of their names and descriptions", () => {
  const keys = searched(all, "Retry delays").map(({ key }) => key);
  assert.ok(keys.includes("delivery.retry_seconds"));
  assert.equal(keys.includes("log.level"), false);
});

test("the text of an input becomes the value that it shows", () => {
  const retries = settingOf("delivery.retry_seconds");
  assert.deepEqual(parsed(retries, "60\n 300 \n\n"), [60, 300]);
  assert.equal(textOf(retries, [60, 300]), "60\n300");
  assert.equal(parsed(settingOf("agent.max_steps"), ""), undefined);
  assert.throws(() => parsed(settingOf("model.providers"), "{"), SyntaxError);
  for (const setting of all) {
    if (setting.default === undefined || setting.kind === "secret") continue;
    assert.deepEqual(parsed(setting, textOf(setting, setting.default)) ?? "", setting.default, setting.key);
  }
});

test("a patch names what changed inside of a map, and not what stayed", () => {
  const file = {
    model: { providers: { a: { type: "openai", api_key: "[redacted]" }, b: { type: "google" } } },
  };
  const value = { a: { type: "openai", api_key: "[redacted]", timeout_seconds: 9 } };
  const patch = patchOf([{ setting: settingOf("model.providers"), value }], file);
  assert.deepEqual(patch, { model: { providers: { a: { timeout_seconds: 9 }, b: null } } });
});

const json = fc.letrec<{ value: Json; object: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    fc.boolean(),
    fc.integer(),
    fc.string({ maxLength: 4 }),
    fc.array(fc.integer(), { maxLength: 3 }),
    tie("object"),
  ),
  object: fc.dictionary(fc.constantFrom("a", "b", "c"), tie("value"), {
    maxKeys: 3,
    noNullPrototype: true,
  }) as fc.Arbitrary<Json>,
}));

test("a patch of a map makes the edited value of the one in the file", () => {
  const setting = settingOf("model.providers");
  fc.assert(
    fc.property(json.object, json.object, (before, after) => {
      const file = { model: { providers: before, context_tokens: 5 } };
      const written = mergePatch(file, patchOf([{ setting, value: after }], file)) as unknown as typeof file;
      assert.deepEqual(written.model, { providers: after, context_tokens: 5 });
    }),
  );
});

test("the difference of two files names each key that changed, was added or removed", () => {
  const changes = changedKeys(
    { log: { level: "info" }, cron: { on: true } },
    { log: { level: "warn", file: "x" } },
  );
  assert.deepEqual(changes, [
    { key: "log.level", before: "info", after: "warn" },
    { key: "log.file", before: undefined, after: "x" },
    { key: "cron.on", before: true, after: undefined },
  ]);
});
