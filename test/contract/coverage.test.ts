import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { schemas } from "../../generated/http/schemas.gen.ts";
import { operations } from "../../generated/http/server.gen.ts";
import { CHANGE_TYPES } from "../../src/store/feed/change.ts";
import { operationsWith } from "../harness/scenario.ts";

const folder = join(import.meta.dirname, "http");

/**
 * `operation status` of every scenario in the given sources. Scenarios prove by themselves that the answer was given. What a
 * scenario of all operations excepts needs one of its own.
 */
function scenariosIn(sources: readonly string[]): ReadonlySet<string> {
  const found = new Set<string>();
  for (const source of sources) {
    const constants = new Map(
      [...source.matchAll(/const (\w+) = "(\w+)";/g)].map(([, name, value]) => [name, value]),
    );
    for (const [, quoted, name, status] of source.matchAll(/scenario\(\s*(?:"(\w+)"|(\w+)),\s*(\d{3}),/g)) {
      found.add(`${quoted ?? constants.get(name)} ${status}`);
    }
    for (const { status, excepted } of scenariosOfAll(source)) {
      for (const { id } of operationsWith(status)) if (!excepted.includes(id)) found.add(`${id} ${status}`);
    }
  }
  return found;
}

/** The scenarios of all operations in a source, with what each excepts: names, or the constant that lists them. */
function* scenariosOfAll(source: string) {
  const lists = new Map(
    [...source.matchAll(/const (\w+) = \[([^\]]*)\];/g)].map(([, name, list]) => [name, list]),
  );
  for (const [, status, rest = ""] of source.matchAll(/scenarioOfAll\(\s*(\d{3}),([^]*?)\basync \(/g)) {
    const [all, named, inline] = /\bexcept: (?:(\w+)|\[([^\]]*)\])/.exec(rest) ?? [];
    const names = inline ?? lists.get(named);
    if (names === undefined && (all !== undefined || /\bexcept\b/.test(rest)))
      throw new Error(`The exceptions of a scenario of all operations cannot be read: ${rest.trim()}`);
    yield {
      status: Number(status),
      excepted: [...(names ?? "").matchAll(/"(\w+)"/g)].map(([, name = ""]) => name),
    };
  }
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

test("the coverage check demands a scenario of its own for what a scenario of all operations excepts", () => {
  const all = (except: string) =>
    `const SOME = ["createRun", "stopRun"];\nscenarioOfAll(401, { title: "x"${except} }, async (service) => {});`;
  const missing = (except: string) =>
    missingFrom(scenariosIn([all(except)])).filter((answer) => answer.endsWith(" 401"));
  assert.deepEqual(missing(""), []);
  assert.deepEqual(missing(", except: SOME"), ["createRun 401", "stopRun 401"]);
  assert.deepEqual(missing(', except: ["createRun"]'), ["createRun 401"]);
  assert.throws(() => missing(", except: elsewhere"), /cannot be read/);
});

test("every declared event of a run is named by a test", async () => {
  const names = Object.values(schemas).flatMap((schema) => {
    const { event } = (schema["properties"] ?? {}) as { event?: { const?: string } };
    return event?.const === undefined ? [] : [event.const];
  });
  assert.ok(names.length > 15);
  assert.deepEqual(unnamed(names, await readTests()), []);
});

test("every type of event of the feed is seen by a test that reads the feed", async () => {
  assert.deepEqual(schemas["FeedEventType"]?.["enum"], CHANGE_TYPES);
  // Tests of the store record changes of their own making, which proves nothing of what the modules record.
  assert.deepEqual(unseen(await readTests((file) => !file.startsWith(join("unit", "store")))), []);
});

test("the check of the feed fails when the only test of a type is gone, or a comment", () => {
  const [first = "", ...others] = CHANGE_TYPES.map(
    (type) => `storedEvents(); assert.equal(type, "${type}");`,
  );
  assert.deepEqual(unseen([first, ...others]), []);
  assert.deepEqual(unseen(others), [CHANGE_TYPES[0]]);
  for (const comment of [`// ${first}`, `/* ${first} */`])
    assert.deepEqual(unseen([comment, ...others]), [CHANGE_TYPES[0]]);
  assert.deepEqual(unseen([first.replace("storedEvents", "unrelated"), ...others]), [CHANGE_TYPES[0]]);
});

/** Sources of the tests. */
async function readTests(fits: (file: string) => boolean = () => true): Promise<string[]> {
  const tests = join(import.meta.dirname, "..");
  const files = (await readdir(tests, { recursive: true })).filter((file) => file.endsWith(".test.ts"));
  return Promise.all(files.filter(fits).map((file) => readFile(join(tests, file), "utf8")));
}

function unnamed(names: readonly string[], sources: readonly string[]): string[] {
  return names.filter((name) => !sources.some((source) => source.includes(`"${name}"`)));
}

/** Types of the feed that no test names of those that read the feed. */
function unseen(sources: readonly string[]): string[] {
  const code = sources.map((source) => source.replaceAll(/^\s*\/\*[^]*?\*\/|(?<=^|\s)\/\/.*/gm, ""));
  return unnamed(
    CHANGE_TYPES,
    code.filter((source) => READS_FEED.test(source)),
  );
}

const READS_FEED = /\b(storedEvents|storedChanges|routeEvents|feed\.read)[<(]|\/v1\/events\b/;
