import assert from "node:assert/strict";
import { test } from "node:test";
import { registerSecret } from "../../../src/base/observe.ts";
import { diffsOf, shownChanges } from "../../../src/agent/tool/scope.ts";

const long = "é".repeat(131_072);
const change = (path: string, text = long) => ({ path, old_text: text, new_text: "b", diff: `of ${path}` });

test("texts of files are shown up to a limit, diffs of all files", () => {
  const shown = shownChanges(Array.from({ length: 100 }, (_, index) => change(`/project/${index}`)));
  assert.equal(shown.length, 100);
  assert.equal(shown.filter(({ old_text: before }) => before !== undefined).length, 7);
  assert.deepEqual(shown.at(-1), { path: "/project/99", diff: "of /project/99", size: 262_144 });
  assert.deepEqual(shown[0], change("/project/0"));
});

test("secrets in the texts are redacted", () => {
  registerSecret("sk-shown-changes-1");
  assert.ok(!JSON.stringify(shownChanges([change("/a", "x sk-shown-changes-1")])).includes("sk-shown"));
});

test("questions show diffs without the texts, of at most 65,536 characters in total", () => {
  const diff = "+".repeat(20_000);
  const changes = ["a", "b", "c", "d"].map((path) => ({ path, old_text: null, new_text: "x", diff }));
  const shown = diffsOf([...changes, { path: "e", old_text: "x", new_text: null, diff: "-x" }]);
  assert.deepEqual(shown[0], { path: "a", old_text: null, diff });
  assert.deepEqual(shown[3], { path: "d", old_text: null, diff: "", omitted: "large" });
  assert.ok(JSON.stringify(shown).length < 66_000);
});
