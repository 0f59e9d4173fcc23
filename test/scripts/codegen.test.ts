import assert from "node:assert/strict";
import { cp, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import { hashTree } from "../../scripts/lib/files.ts";
import { copySpecs, edit, fixtureSpecs, makeFolder, run, type Finished } from "../unit/scripts/fixtures.ts";

let folder = "";
let written: Finished;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "agentd-codegen-"));
  written = await codegen(fixtureSpecs, join(folder, "generated"));
});
after(() => rm(folder, { recursive: true, force: true }));

function codegen(specs: string, out: string, ...more: string[]): Promise<Finished> {
  return run("scripts/codegen.ts", ["--specs", specs, "--out", out, ...more]);
}

/** A private copy of what codegen wrote, beside a private copy of the specs. */
async function copyAll(context: TestContext): Promise<{ readonly specs: string; readonly out: string }> {
  const specs = await copySpecs(context);
  const out = join(dirname(specs), "generated");
  await cp(join(folder, "generated"), out, { recursive: true });
  return { specs, out };
}

test("codegen writes the folder and nothing beside it", async () => {
  assert.match(written.output, /^generated \d+ files in [\d.]+ s\n$/);
  assert.equal(written.status, 0);
  assert.deepEqual(await readdir(folder), ["generated"]);
});

test("--check is content with what codegen wrote", async () => {
  const clean = await codegen(fixtureSpecs, join(folder, "generated"), "--check");
  assert.deepEqual(clean, { status: 0, output: "generated/ is what specs/ give\n" });
});

test("--check reports an edited, a missing and an extra file, and changes nothing", async (context) => {
  const { specs, out } = await copyAll(context);
  await edit(join(out, "http/server.gen.ts"), "limit: 20", "limit: 21");
  await rm(join(out, "http/client/sdk.gen.ts"));
  await writeFile(join(out, "http/mine.ts"), "export const mine = 1;\n");
  const found = await hashTree(out);
  const { status, output } = await codegen(specs, out, "--check");
  assert.equal(status, 1);
  assert.deepEqual(output.split("\n"), [
    `missing ${join(out, "http/client/sdk.gen.ts")}`,
    `extra   ${join(out, "http/mine.ts")}`,
    `stale   ${join(out, "http/server.gen.ts")}`,
    '3 file(s) differ: run "npm run codegen" and commit the result',
    "",
  ]);
  assert.deepEqual(await hashTree(out), found);
});

test("--check finds that a spec has changed since", async (context) => {
  const { specs, out } = await copyAll(context);
  await edit(join(specs, "schemas/common.yaml"), "required: [id, name]", "required: [id]");
  const { status, output } = await codegen(specs, out, "--check");
  assert.equal(status, 1);
  const files = output.split("\n").flatMap((line) => (line.startsWith("stale") ? [basename(line)] : []));
  assert.ok(files.includes("http.openapi.json") && files.includes("types.gen.ts"), output);
});

test("a failed run leaves the old output and nothing else", async (context) => {
  const { specs, out } = await copyAll(context);
  const found = await hashTree(out);
  await edit(join(specs, "http.openapi.yaml"), "operationId: getThing", "summary2: x");
  const { status, output } = await codegen(specs, out);
  assert.equal(status, 1);
  assert.equal(output, "http.openapi.yaml: GET /things/{thing_id}: operationId is required\n");
  assert.deepEqual(await hashTree(out), found);
  assert.deepEqual((await readdir(dirname(out))).toSorted(), ["generated", "specs"]);
});

test("--check against a folder that is not there reports every file missing", async (context) => {
  const out = join(await makeFolder(context), "nowhere");
  const { status, output } = await codegen(fixtureSpecs, out, "--check");
  assert.equal(status, 1);
  assert.ok(output.split("\n").filter((line) => line.startsWith("missing")).length > 20, output);
});
