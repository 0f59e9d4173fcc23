import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { checkConfigSchema, lintSpecs } from "../../scripts/lib/lint.ts";
import { copySpecs, edit, makeFolder, run } from "../unit/scripts/fixtures.ts";

test("lint names the spec that breaks a rule", async (context) => {
  const specs = await copySpecs(context);
  await edit(join(specs, "gateway.openrpc.yaml"), "summary: All things", "sumary: All things");
  const { ok, reports } = await lintSpecs(specs);
  assert.equal(ok, false);
  assert.match(reports.join("\n"), /gateway\.openrpc\.yaml[^]*sumary/);
});

test("a schema that is not a JSON Schema fails", async (context) => {
  const specs = await copySpecs(context);
  await edit(join(specs, "config.schema.yaml"), "maximum: 65535", "maximum: many");
  const { ok, reports } = await lintSpecs(specs);
  assert.equal(ok, false);
  assert.match(reports.join("\n"), /maximum/);
});

test("a default that its own schema refuses fails with its place", async (context) => {
  const specs = await copySpecs(context);
  await edit(join(specs, "config.schema.yaml"), "default: 8642", "default: 70000");
  const { ok, reports } = await lintSpecs(specs);
  assert.equal(ok, false);
  assert.ok(
    reports.includes(
      "config.schema.yaml /$defs/Server/properties/port: its own schema refuses the default: the value must be at most 65535",
    ),
    reports.join("\n"),
  );
});

test("a property that is called default is not taken for one", () => {
  const schema = { type: "object", properties: { default: { type: "integer", default: 1 } } };
  assert.deepEqual(checkConfigSchema(schema), []);
  assert.equal(checkConfigSchema({ properties: { default: { type: "integer", default: "x" } } }).length, 1);
});

test("the command fails for a missing spec and names it", async (context) => {
  const specs = await copySpecs(context);
  await rm(join(specs, "config.schema.yaml"));
  const { status, output } = await run("scripts/lint-specs.ts", [specs]);
  assert.equal(status, 1);
  assert.ok(output.includes(`${join(specs, "config.schema.yaml")} is missing`), output);
  const empty = await makeFolder(context);
  const none = await run("scripts/lint-specs.ts", [empty]);
  assert.equal(none.status, 1);
  assert.equal(none.output.match(/is missing/g)?.length, 3);
});
