import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { slowestFiles, slowestFirst } from "../../../scripts/test/order.ts";

test("every file that is known to be slow exists", () => {
  assert.deepEqual(
    slowestFiles.filter((file) => !existsSync(file)),
    [],
  );
});

test("the slow files of a suite run first, and each file runs once", () => {
  const [first = "", second = ""] = slowestFiles;
  assert.deepEqual(slowestFirst(["a.test.ts", second, "b.test.ts", first]), [
    first,
    second,
    "a.test.ts",
    "b.test.ts",
  ]);
});
