import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { promisify } from "node:util";

const child = join(import.meta.dirname, "small-heap-child.ts");
/** Deno does not let a program that runs change the flags of V8. */
const skip = "Deno" in globalThis;

interface Peak {
  readonly heapMb: number;
  readonly newSpaceMb: number;
}

async function peakWith(policy: "default" | "service" | "editor"): Promise<Peak> {
  const { stdout } = await promisify(execFile)(process.execPath, [child, policy]);
  return JSON.parse(stdout) as Peak;
}

test("the heap of a service, and of an editor's agent, stays near what it holds", { skip }, async () => {
  const free = await peakWith("default");
  for (const policy of ["service", "editor"] as const) {
    const { heapMb, newSpaceMb } = await peakWith(policy);
    const found = `${policy}: about 45 MB are held, the heap took ${heapMb} MB, ${free.heapMb} MB by default`;
    assert.ok(heapMb < free.heapMb * 0.85, found);
    assert.ok(newSpaceMb <= 32, `${policy}: the space of new objects took ${newSpaceMb} MB`);
  }
});
