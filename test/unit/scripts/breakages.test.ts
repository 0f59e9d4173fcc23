import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { Breakage } from "../../../scripts/breakages/breakage.ts";
import { allBreakages, staleness } from "../../../scripts/breakages/all.ts";

const root = join(import.meta.dirname, "../../..");

test("every breakage quotes text that occurs exactly once in its source file", async () => {
  const found = await Promise.all(
    allBreakages.map(async (breakage) => {
      const source = await readFile(join(root, "src", breakage.file), "utf8").catch(() => "");
      return { name: breakage.name, problem: staleness(breakage, source) };
    }),
  );
  assert.deepEqual(
    found.filter(({ problem }) => problem !== undefined),
    [],
  );
});

test("every breakage has a name of its own and tests that exist", () => {
  const names = allBreakages.map(({ name }) => name);
  assert.deepEqual(
    names.filter((name, index) => names.indexOf(name) !== index),
    [],
  );
  const missing = allBreakages.flatMap(({ tests }) =>
    tests.filter((file) => !existsSync(join(root, "test", file))),
  );
  assert.deepEqual(missing, []);
  assert.deepEqual(
    allBreakages.filter(({ tests }) => tests.length === 0),
    [],
  );
});

test("a breakage whose text is gone, occurs twice or changes nothing is stale", () => {
  const breakage: Breakage = {
    name: "door",
    guarantee: "The door is shut",
    file: "door.ts",
    from: "shut()",
    to: "open()",
    tests: [],
  };
  assert.equal(staleness(breakage, "shut();"), undefined);
  assert.match(staleness(breakage, "close();") ?? "", /occurs 0 times in src\/door\.ts/);
  assert.match(staleness(breakage, "shut(); shut();") ?? "", /occurs 2 times/);
  assert.match(staleness({ ...breakage, to: "shut()" }, "shut();") ?? "", /new text is the old one/);
});
