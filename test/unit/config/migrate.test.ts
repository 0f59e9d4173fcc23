import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseDocument } from "yaml";
import { migrateDocument, type Migration } from "../../../src/config/migrate.ts";

const steps: readonly Migration[] = [
  {
    to: 2,
    migrate(yaml) {
      if (!yaml.has("old")) return;
      yaml.set("new", yaml.get("old", true));
      yaml.delete("old");
    },
  },
  { to: 3, migrate: (yaml) => void yaml.set("added", true) },
];

describe("migrateDocument", () => {
  it("takes every step that is due, in order, and keeps comments", () => {
    const yaml = parseDocument("# top\nversion: 1\nold: 5 # five\n");
    assert.deepEqual(migrateDocument(yaml, steps), { from: 1, to: 3 });
    assert.deepEqual(yaml.toJS(), { version: 3, new: 5, added: true });
    assert.match(String(yaml), /^# top\n[\s\S]*5 # five/);
  });

  it("takes a file without a version for the first one", () => {
    const yaml = parseDocument("old: 5\n");
    migrateDocument(yaml, steps);
    assert.deepEqual(yaml.toJS(), { new: 5, version: 3, added: true });
  });

  it("takes only the steps after the file's version", () => {
    const yaml = parseDocument("version: 2\nold: 5\n");
    migrateDocument(yaml, steps);
    assert.deepEqual(yaml.toJS(), { version: 3, old: 5, added: true });
  });

  it("leaves a current file as it is, to the letter", () => {
    const text = "version: 3 # now\nnew: 1\n";
    const yaml = parseDocument(text);
    migrateDocument(yaml, steps);
    assert.equal(String(yaml), text);
  });

  it("refuses a newer one, and changes nothing", () => {
    const yaml = parseDocument("version: 4\nold: 5\n");
    assert.match(migrateDocument(yaml, steps).problem?.message ?? "", /4 is newer .* up to 3/);
    assert.deepEqual(yaml.toJS(), { version: 4, old: 5 });
  });

  for (const text of ["", "- a", "version: one\n", "version: 0\n", "version: 1.5\n"]) {
    it(`does not fail on ${JSON.stringify(text)}`, () => {
      assert.equal(migrateDocument(parseDocument(text), steps).problem, undefined);
    });
  }
});
