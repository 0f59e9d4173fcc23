import assert from "node:assert/strict";
import { glob, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { commonJsNames } from "../../../scripts/lib/commonjs-names.ts";

const root = join(import.meta.dirname, "../../..");

/** Packages that the source imports when it needs them. */
async function lazyPackages(): Promise<string[]> {
  const names = new Set<string>();
  for await (const file of glob("src/**/*.{ts,tsx}", { cwd: root })) {
    const text = await readFile(join(root, file), "utf8");
    for (const [, name = ""] of text.matchAll(/\bimport\("([^."][^"]*)"\)/g)) names.add(name);
  }
  return [...names].filter((name) => !name.startsWith("node:")).toSorted();
}

type Loaders = Readonly<Record<string, () => Promise<Readonly<Record<string, unknown>>>>>;

/** A split bundle that imports the packages when it is asked to. */
async function bundle(names: readonly string[], folder: string): Promise<Loaders> {
  const loaders = names.map((name) => `${JSON.stringify(name)}: () => import(${JSON.stringify(name)})`);
  await build({
    stdin: { contents: `export const loaders = { ${loaders.join(", ")} };`, resolveDir: root },
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    banner: {
      js: "import{createRequire as __createRequire}from'node:module';const require=__createRequire(import.meta.url);",
    },
    plugins: [commonJsNames],
    logLevel: "error",
  });
  const { loaders: made } = (await import(pathToFileURL(join(folder, "stdin.mjs")).href)) as {
    readonly loaders: Loaders;
  };
  return made;
}

test("packages that the bundle imports when it needs them have the names that they have in Node", async () => {
  const folder = await mkdtemp(join(tmpdir(), "agentd-bundle-"));
  try {
    const names = await lazyPackages();
    assert.ok(names.includes("yaml") && names.includes("write-file-atomic"), names.join());
    const loaders = await bundle(names, folder);
    for (const name of names) {
      const bundled = (await loaders[name]?.()) ?? {};
      const wanted = Object.entries((await import(name)) as object).filter(
        ([key]) => key !== "module.exports",
      );
      for (const [key, value] of wanted) assert.equal(typeof bundled[key], typeof value, `${name}: ${key}`);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
