import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { promisify } from "node:util";

const child = join(import.meta.dirname, "small-heap-child.ts");
/** Deno does not let a program that runs change the flags of V8. */
const skip = "Deno" in globalThis;

async function newSpaceWith(policy: "default" | "service" | "editor"): Promise<number> {
  const { stdout } = await promisify(execFile)(process.execPath, [child, policy]);
  return (JSON.parse(stdout) as { readonly newSpaceMb: number }).newSpaceMb;
}

// How much the whole heap takes depends on when V8 collects it: the bench of silent readers measures that.
test("the young generation of a service, and of an editor's agent, stays small", { skip }, async () => {
  const free = await newSpaceWith("default");
  for (const policy of ["service", "editor"] as const) {
    const newSpaceMb = await newSpaceWith(policy);
    assert.ok(
      newSpaceMb < free * 0.8,
      `${policy}: the young generation took ${newSpaceMb} MB, ${free} MB by default`,
    );
  }
});
