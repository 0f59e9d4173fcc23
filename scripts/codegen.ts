/** `npm run codegen`: makes generated/ from specs/. With `--check` it only compares, and fails on drift. */
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { SpecError } from "./lib/document.ts";
import { findDrift } from "./lib/drift.ts";
import { hashTree, removeFolder, replaceFolder } from "./lib/files.ts";
import { generate } from "./lib/generate.ts";
import { repository } from "./lib/redocly.ts";

const { values } = parseArgs({
  options: {
    check: { type: "boolean", default: false },
    specs: { type: "string", default: join(repository, "specs") },
    out: { type: "string", default: join(repository, "generated") },
  },
});
const target = resolve(values.out);
const startedMs = performance.now();

try {
  await (values.check ? check() : write());
} catch (error) {
  if (!(error instanceof SpecError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}

/** Generates beside the target and swaps, so a failed run leaves the old output. */
async function write(): Promise<void> {
  const work = `${target}.${process.pid}.tmp`;
  try {
    await generate({ specsFolder: values.specs, outFolder: work });
    await replaceFolder(work, target);
  } finally {
    await removeFolder(work);
  }
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  console.log(`generated ${(await hashTree(target)).size} files in ${seconds} s`);
}

async function check(): Promise<void> {
  const work = await mkdtemp(join(tmpdir(), "codegen-"));
  try {
    await generate({ specsFolder: values.specs, outFolder: work });
    const drift = await findDrift(work, target);
    for (const { file, state } of drift) console.error(`${state.padEnd(7)} ${join(values.out, file)}`);
    if (drift.length === 0) return console.log("generated/ is what specs/ give");
    console.error(`${drift.length} file(s) differ: run "npm run codegen" and commit the result`);
    process.exitCode = 1;
  } finally {
    await removeFolder(work);
  }
}
