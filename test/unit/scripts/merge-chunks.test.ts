import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { test } from "node:test";
import { build } from "esbuild";
import { mergeChunks, type Starts } from "../../../scripts/lib/merge-chunks.ts";

/** `first` and `second` share `both` with the rest; only `second` needs `late`, which it imports when it runs. */
const sources: Readonly<Record<string, string>> = {
  "main.js": `export const first = () => import("./first.js");
    export const second = () => import("./second.js");
    export const rare = () => import("./rare.js");`,
  "first.js": `import { both, add } from "./both.js"; import { shared } from "./shared.js"; add("first");
    export const value = both + shared;`,
  "second.js": `import { both, add } from "./both.js"; import { shared } from "./shared.js"; add("second");
    export const value = both - shared; export const late = async () => (await import("./late.js")).default;`,
  "rare.js": `import { shared } from "./shared.js"; import { order } from "./both.js";
    export const value = shared; export const seen = order;`,
  "late.js": `import { both } from "./both.js"; export default both * 100;`,
  "both.js": `export const both = 40; export const order = []; export const add = (name) => order.push(name);`,
  "shared.js": `export const shared = 2;`,
};

async function merge(starts: Starts) {
  const folder = await mkdtemp(join(tmpdir(), "agentd-merge-"));
  const write = async (path: string, text: string) => {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  };
  for (const [name, text] of Object.entries(sources)) await write(join(folder, name), text);
  const bundled = await build({
    write: false,
    metafile: true,
    absWorkingDir: folder,
    entryPoints: { main: "main.js" },
    outdir: join(folder, "dist"),
    bundle: true,
    splitting: true,
    minify: true,
    format: "esm",
    outExtension: { ".js": ".mjs" },
    chunkNames: "chunks/[name]-[hash]",
  });
  const files = await mergeChunks(bundled, { folder: join(folder, "dist/chunks"), starts });
  for (const { path, text } of files) await write(path, text);
  return {
    names: files.map(({ path }) => basename(path)),
    import: (name: string) => import(pathToFileURL(join(folder, "dist", name)).href),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

test("chunks that the same starts load become one file, and every import finds its module there", async () => {
  await using merged = await merge({ first: ["first.js"], second: ["second.js", "late.js"] });
  const starts = merged.names.filter((name) => name.startsWith("start-"));
  assert.deepEqual(starts.toSorted(), ["start-first-second.mjs", "start-first.mjs", "start-second.mjs"]);
  const main = await merged.import("main.mjs");
  assert.equal((await main.first()).value, 42);
  const second = await main.second();
  assert.equal(second.value, 38);
  assert.equal(await second.late(), 4000);
  const rare = await main.rare();
  assert.equal(rare.value, 2);
  assert.deepEqual(rare.seen, ["first", "second"], "a module was evaluated twice");
});

test("a start that names a source without a chunk of its own fails the build", async () => {
  await assert.rejects(
    merge({ first: ["shared.js"] }),
    /shared\.js, which first loads at its start, has no chunk of its own/,
  );
});
