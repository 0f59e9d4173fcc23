import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { build } from "esbuild";

const entry = fileURLToPath(new URL("../../../src/client/gateway.ts", import.meta.url));
const MAX_BYTES = 12.5 * 1024;

test("@agentd/agentd/gateway is at most 12.5 KB minified, and imports nothing", async () => {
  const { outputFiles, metafile } = await build({
    entryPoints: [entry],
    bundle: true,
    minify: true,
    platform: "neutral",
    format: "esm",
    target: "es2024",
    write: false,
    metafile: true,
  });
  const [file] = outputFiles;
  assert.ok(file && file.contents.length <= MAX_BYTES, `${file?.contents.length} bytes`);
  for (const { imports } of Object.values(metafile.outputs)) assert.deepEqual(imports, []);
});
