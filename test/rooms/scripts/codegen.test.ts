import assert from "node:assert/strict";
import { readdir, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { test } from "node:test";
import { hashTree } from "../../../scripts/lib/files.ts";
import { copySpecs, edit, fixtureSpecs, makeFolder, run } from "./fixtures.ts";

const codegen = (specs: string, out: string, ...more: string[]) =>
  run("scripts/codegen.ts", ["--specs", specs, "--out", out, ...more]);

test("codegen writes, and --check finds an edited, a missing and an extra file", async (context) => {
  const out = join(await makeFolder(context), "generated");
  const written = await codegen(fixtureSpecs, out);
  assert.match(written.output, /^generated \d+ files in [\d.]+ s\n$/);
  assert.equal(written.status, 0);
  assert.deepEqual(await readdir(dirname(out)), ["generated"]);

  const clean = await codegen(fixtureSpecs, out, "--check");
  assert.deepEqual(clean, { status: 0, output: "generated/ is what specs/ give\n" });

  await edit(join(out, "http/server.gen.ts"), "limit: 20", "limit: 21");
  await rm(join(out, "http/client/sdk.gen.ts"));
  await writeFile(join(out, "http/mine.ts"), "export const mine = 1;\n");
  const before = await hashTree(out);
  const { status, output } = await codegen(fixtureSpecs, out, "--check");
  assert.equal(status, 1);
  assert.deepEqual(output.split("\n"), [
    `missing ${join(out, "http/client/sdk.gen.ts")}`,
    `extra   ${join(out, "http/mine.ts")}`,
    `stale   ${join(out, "http/server.gen.ts")}`,
    '3 file(s) differ: run "npm run codegen" and commit the result',
    "",
  ]);
  assert.deepEqual(await hashTree(out), before, "--check changes nothing");
});

test("--check finds that a spec has changed since", async (context) => {
  const specs = await copySpecs(context);
  const out = join(dirname(specs), "generated");
  assert.equal((await codegen(specs, out)).status, 0);
  await edit(join(specs, "schemas/common.yaml"), "required: [id, name]", "required: [id]");
  const { status, output } = await codegen(specs, out, "--check");
  assert.equal(status, 1);
  const files = output.split("\n").flatMap((line) => (line.startsWith("stale") ? [basename(line)] : []));
  assert.ok(files.includes("http.openapi.json") && files.includes("types.gen.ts"), output);
});

test("a failed run leaves the old output and nothing else", async (context) => {
  const specs = await copySpecs(context);
  const out = join(dirname(specs), "generated");
  await codegen(specs, out);
  const before = await hashTree(out);
  await edit(join(specs, "http.openapi.yaml"), "operationId: getThing", "summary2: x");
  const { status, output } = await codegen(specs, out);
  assert.equal(status, 1);
  assert.equal(output, "http.openapi.yaml: GET /things/{thing_id}: operationId is required\n");
  assert.deepEqual(await hashTree(out), before);
  assert.deepEqual((await readdir(dirname(out))).toSorted(), ["generated", "specs"]);
});

test("--check against a folder that is not there reports every file missing", async (context) => {
  const out = join(await makeFolder(context), "nowhere");
  const { status, output } = await codegen(fixtureSpecs, out, "--check");
  assert.equal(status, 1);
  assert.ok(output.split("\n").filter((line) => line.startsWith("missing")).length > 20, output);
});
