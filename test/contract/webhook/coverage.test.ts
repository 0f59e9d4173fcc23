import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { schemas } from "../../../generated/webhook/schemas.gen.ts";
import { operations } from "../../../generated/webhook/server.gen.ts";

/** Everything that the spec declares, as scenarios name it: each status of an operation, and each header of those. */
const declared: readonly string[] = Object.entries(operations).flatMap(([operation, { responses }]) =>
  Object.entries(responses).flatMap(([status, { headers }]) => [
    `${operation} ${status}`,
    ...headers.map((header) => `${operation} ${status} ${header}`),
  ]),
);

/** What the scenarios of the given sources prove; that they do, they check by themselves. */
function provenBy(sources: readonly string[]): ReadonlySet<string> {
  const calls = sources.flatMap((source) => [
    ...source.matchAll(/webhookScenario\(\s*("[^"]+"|\[[^\]]*\])/g),
  ]);
  return new Set(
    calls.flatMap(([, first = ""]) => [...first.matchAll(/"([^"]+)"/g)].map(([, name = ""]) => name)),
  );
}

function missingFrom(proven: ReadonlySet<string>): readonly string[] {
  return declared.filter((each) => !proven.has(each));
}

async function readScenarios(): Promise<readonly string[]> {
  const files = (await readdir(import.meta.dirname)).map((file) => join(import.meta.dirname, file));
  const tests = files.filter((file) => file.endsWith(".test.ts") && file !== import.meta.filename);
  return Promise.all(tests.map((file) => readFile(file, "utf8")));
}

test("every operation, status and header of the spec has a scenario over real HTTP", async () => {
  assert.deepEqual(missingFrom(provenBy(await readScenarios())), []);
});

test("every code of a refusal is named by a test", async () => {
  const sources = await readScenarios();
  const codes = schemas["WebhookRefusalCode"]?.["enum"] as readonly string[];
  assert.ok(codes.length > 10);
  assert.deepEqual(
    codes.filter((code) => !sources.some((source) => source.includes(`"${code}"`))),
    [],
  );
});

test("the coverage check fails when a scenario is missing", () => {
  const [first, ...rest] = declared.map((each) => `webhookScenario("${each}", "…", async () => {});`);
  const together = `webhookScenario([${declared.map((each) => JSON.stringify(each)).join(",\n")}], {`;
  assert.ok(first && declared.length > 30, `only ${declared.length} are declared`);
  assert.deepEqual(missingFrom(provenBy([first, ...rest])), []);
  assert.deepEqual(missingFrom(provenBy([together])), []);
  assert.deepEqual(missingFrom(provenBy(rest)), ["getHealth 200"]);
});

test("no scenario names what the spec does not declare", async () => {
  const proven = provenBy(await readScenarios());
  assert.deepEqual(
    [...proven].filter((each) => !declared.includes(each)),
    [],
  );
});
