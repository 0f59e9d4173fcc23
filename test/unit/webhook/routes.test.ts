import assert from "node:assert/strict";
import { test } from "node:test";
import { createLog } from "../../../src/base/observe.ts";
import { WebhookRoutes } from "../../../src/webhook/routes/routes.ts";
import { subscriptionName } from "../../../src/webhook/routes/subscriptions.ts";

const NOW_MS = 1_800_000_000_000;

/** A file whose text and time the test decides; the stamp has only whole seconds, as some file systems have. */
function fileOf(text: string) {
  const file = { text, changedAtMs: NOW_MS, reads: 0, nowMs: NOW_MS, log: [] as string[] };
  const routes = new WebhookRoutes({
    routes: [],
    defaults: { secrets: ["s"], isLoopback: true, resolve: (secret) => secret },
    file: {
      state: async () => ({
        stamp: String(Math.floor(file.changedAtMs / 1000)),
        changedAtMs: file.changedAtMs,
      }),
      text: async () => {
        file.reads += 1;
        return file.text;
      },
    },
    clock: { now: () => file.nowMs },
    log: createLog("warn", (line) => void file.log.push(line)),
  });
  return { file, routes };
}

test("two writes within one file timestamp are both seen", async () => {
  const { file, routes } = fileOf('{"a": {}}');
  assert.ok(await routes.find("a"));
  file.text = '{"b": {}}';
  assert.ok(await routes.find("b"));
  assert.equal(await routes.find("a"), undefined);
});

test("a recent file is read at every request, and an older one only once", async () => {
  const { file, routes } = fileOf('{"a": {}}');
  await routes.find("a");
  await routes.find("a");
  assert.equal(file.reads, 2);
  file.nowMs += 10_000;
  for (let n = 0; n < 5; n++) await routes.find("a");
  assert.equal(file.reads, 3);
});

test("problems of one file state are logged once, however often it is read", async () => {
  const { file, routes } = fileOf('{"a": {"secret": ""}}');
  for (let n = 0; n < 3; n++) await routes.find("a");
  file.text = "broken";
  for (let n = 0; n < 3; n++) await routes.find("a");
  assert.equal(file.log.length, 2);
});

test("a subscription with an invalid filter is logged and kept", async () => {
  const { file, routes } = fileOf('{"a": {"filters": [{"field": "x", "regex": "("}]}}');
  assert.ok(await routes.find("a"));
  assert.match(file.log.join(""), /filters\[0\]\.regex/);
});

test("subscription names are normalised, and invalid ones are refused", () => {
  for (const [text, name] of [
    ["  My Hook ", "my-hook"],
    ["a_b-1", "a_b-1"],
    ["", undefined],
    ["-a", undefined],
    ["a/b", undefined],
    ["é", undefined],
    ["__proto__", undefined],
    ["a".repeat(129), undefined],
  ] as const) {
    assert.equal(subscriptionName(text), name, text);
  }
});
