import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { gatewayEvents, hostRequests } from "../../../generated/gateway/host.gen.ts";
import { gatewayRequests } from "../../../generated/gateway/rpc.gen.ts";

/** What any method may answer, so that one scenario for each is enough. */
const PROTOCOL_ERRORS = [-32700, -32600, -32601, -32602, -32603, -32001, -32003];

/** Everything that the two documents declare, as scenarios name it. */
const declared: readonly string[] = [
  ...Object.entries(gatewayRequests).flatMap(([method, { errors }]) => [
    method,
    ...errors.map((code) => `${method} ${code}`),
  ]),
  ...Object.keys(gatewayEvents).map((type) => `event ${type}`),
  ...Object.keys(hostRequests).flatMap((method) => [`question ${method}`, `answer ${method}`]),
  ...PROTOCOL_ERRORS.map((code) => `error ${code}`),
];

/** What the scenarios of the given sources prove; that they do, they check by themselves. */
function provenBy(sources: readonly string[]): ReadonlySet<string> {
  const calls = sources.flatMap((source) => [...source.matchAll(/rpcScenario\(\s*("[^"]+"|\[[^\]]*\])/g)]);
  return new Set(
    calls.flatMap(([, first = ""]) => [...first.matchAll(/"([^"]+)"/g)].map(([, name = ""]) => name)),
  );
}

function missingFrom(proven: ReadonlySet<string>): readonly string[] {
  return declared.filter((each) => !proven.has(each));
}

async function readScenarios(): Promise<readonly string[]> {
  const own = import.meta.filename;
  const files = (await readdir(import.meta.dirname)).map((file) => join(import.meta.dirname, file));
  const tests = files.filter((file) => file.endsWith(".test.ts") && file !== own);
  return Promise.all(tests.map((file) => readFile(file, "utf8")));
}

test("every method, error, event and question of the specs has a scenario over both transports", async () => {
  assert.deepEqual(missingFrom(provenBy(await readScenarios())), []);
});

test("the coverage check fails when a scenario is missing", () => {
  const [first, ...rest] = declared.map((each) => `rpcScenario("${each}", "…", async () => {});`);
  const together = `rpcScenario([${declared.map((each) => JSON.stringify(each)).join(",\n")}], {`;
  assert.ok(first && declared.length > 200, `only ${declared.length} are declared`);
  assert.deepEqual(missingFrom(provenBy([first, ...rest])), []);
  assert.deepEqual(missingFrom(provenBy([together])), []);
  assert.deepEqual(missingFrom(provenBy(rest)), ["rpc.discover"]);
});

test("no scenario names anything undeclared", async () => {
  const proven = provenBy(await readScenarios());
  assert.deepEqual(
    [...proven].filter((each) => !declared.includes(each)),
    [],
  );
});
