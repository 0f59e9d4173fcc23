import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { schemas } from "../../generated/http/schemas.gen.ts";
import { operations } from "../../generated/http/server.gen.ts";
import { operationsWith } from "../harness/scenario.ts";

const folder = join(import.meta.dirname, "http");

/** `operation status` of every scenario in the given sources. Scenarios prove by themselves that the answer was given. */
function scenariosIn(sources: readonly string[]): ReadonlySet<string> {
  const found = new Set<string>();
  for (const source of sources) {
    const constants = new Map(
      [...source.matchAll(/const (\w+) = "(\w+)";/g)].map(([, name, value]) => [name, value]),
    );
    for (const [, quoted, name, status] of source.matchAll(/scenario\(\s*(?:"(\w+)"|(\w+)),\s*(\d{3}),/g)) {
      found.add(`${quoted ?? constants.get(name)} ${status}`);
    }
    for (const [, status] of source.matchAll(/scenarioOfAll\(\s*(\d{3}),/g)) {
      for (const { id } of operationsWith(Number(status))) found.add(`${id} ${status}`);
    }
  }
  return found;
}

function missingFrom(found: ReadonlySet<string>): string[] {
  return Object.entries(operations).flatMap(([id, { responses }]) =>
    Object.keys(responses)
      .map((status) => `${id} ${status}`)
      .filter((answer) => !found.has(answer)),
  );
}

test("every operation of the spec has a handler and every answer in the suite conforms to it", async () => {
  const files = (await readdir(folder)).filter((file) => file.endsWith(".test.ts"));
  const sources = await Promise.all(files.map((file) => readFile(join(folder, file), "utf8")));
  assert.deepEqual(missingFrom(scenariosIn(sources)), []);
});

test("the coverage check fails when a scenario is missing", () => {
  const almost = Object.entries(operations).flatMap(([id, { responses }]) =>
    Object.keys(responses).map((status) => `scenario("${id}", ${status}, {`),
  );
  assert.deepEqual(missingFrom(scenariosIn(almost)), []);
  assert.deepEqual(missingFrom(scenariosIn(almost.slice(1))), ["createChatCompletion 200"]);
});

test("every declared event of a run is named by a test", async () => {
  const names = Object.values(schemas).flatMap((schema) => {
    const { event } = (schema["properties"] ?? {}) as { event?: { const?: string } };
    return event?.const === undefined ? [] : [event.const];
  });
  const tests = join(import.meta.dirname, "..");
  const files = (await readdir(tests, { recursive: true })).filter((file) => file.endsWith(".test.ts"));
  const sources = await Promise.all(files.map((file) => readFile(join(tests, file), "utf8")));
  assert.ok(names.length > 15);
  assert.deepEqual(
    names.filter((name) => !sources.some((source) => source.includes(`"${name}"`))),
    [],
  );
});
