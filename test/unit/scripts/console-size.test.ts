import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { buildConsole, type ConsoleManifest } from "../../../scripts/lib/console.ts";

const root = resolve(import.meta.dirname, "../../..");
const KB = 1_024;
/** What the browser loads for the first page. It may grow to 120 KB with features; this finds what grows unnoticed. */
const FIRST_PAGE = 71 * KB;
const PAGE = 25 * KB;
/** Libraries that load when they are first needed. */
const LIBRARIES = /^(highlight|uPlot)/;
const MEMORY = 600 * KB;

test("the console stays within its budgets, and is served whole by its manifest", async () => {
  const folder = await mkdtemp(join(tmpdir(), "agentd-console-"));
  try {
    await buildConsole(root, folder);
    const manifest = JSON.parse(await readFile(join(folder, "manifest.json"), "utf8")) as ConsoleManifest;
    const sizes = new Map<string, number>();
    let stored = 0;
    for (const { name } of manifest.files) {
      const contents = await readFile(join(folder, name));
      sizes.set(name, gzipSync(contents, { level: 9 }).length);
      stored += contents.length;
    }
    const first = await firstPage(folder, sizes);
    const firstBytes = first.reduce((sum, name) => sum + (sizes.get(name) ?? 0), 0);
    assert.ok(firstBytes <= FIRST_PAGE, `the first page is ${firstBytes} bytes: ${first.join(", ")}`);
    for (const [name, bytes] of sizes) {
      if (first.includes(name) || LIBRARIES.test(name)) continue;
      assert.ok(bytes <= PAGE, `${name} is ${bytes} bytes`);
    }
    assert.ok(stored <= MEMORY, `all files are ${stored} bytes`);
    // A name that changes with its contents may be kept by browsers for a year.
    for (const { name } of manifest.files.filter((file) => !file.name.endsWith(".html")))
      assert.match(name, /-[A-Z0-9]{8}\.\w+$/);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

/** The files that the chat needs: those that the page names, and what they import at once. */
async function firstPage(folder: string, sizes: ReadonlyMap<string, number>): Promise<readonly string[]> {
  const found = new Set<string>(["index.html"]);
  for (const name of found) {
    const text = await readFile(join(folder, name), "utf8");
    const named = name.endsWith(".js")
      ? [...text.matchAll(/(?:from|import)\s*"\.\/([\w.-]+)"/g)]
      : [...text.matchAll(/\/_console\/([\w.-]+)/g)];
    for (const [, other = ""] of named) if (sizes.has(other)) found.add(other);
  }
  return [...found];
}
