/** An esbuild plugin: packages that are imported when they are needed have the names that they have in Node. */
import { fileURLToPath } from "node:url";
import type { Plugin } from "esbuild";

/** Node gives it to the namespace of every CommonJS module, beside `default`. */
const COMMONJS = "module.exports";
const NAMESPACE = "commonjs-names";

/**
 * Makes `await import("package")` of a CommonJS package resolve to its named exports as well. In a bundle that is split,
 * esbuild gives such an import nothing but `default`; names that are taken from it are undefined, without a warning.
 */
export const commonJsNames: Plugin = {
  name: NAMESPACE,
  setup(bundler) {
    bundler.onResolve({ filter: /^[^./]/ }, async ({ path, kind }) => {
      if (kind !== "dynamic-import" || path.startsWith("node:")) return undefined;
      return COMMONJS in (await load(path)) ? { path, namespace: NAMESPACE } : undefined;
    });
    bundler.onLoad({ filter: /./, namespace: NAMESPACE }, async ({ path }) => ({
      contents: facade(fileURLToPath(import.meta.resolve(path)), Object.keys(await load(path))),
      resolveDir: import.meta.dirname,
    }));
  },
};

async function load(path: string): Promise<object> {
  return (await import(path)) as object;
}

/** An ES module that exports `names` of the CommonJS `file`. */
function facade(file: string, names: readonly string[]): string {
  const own = names.filter((name) => name !== "default" && name !== COMMONJS);
  const locals = own.map((name, at) => `${JSON.stringify(name)}: _${at}`);
  const exported = own.map((name, at) => `_${at} as ${JSON.stringify(name)}`);
  return [
    `const all = require(${JSON.stringify(file)});`,
    `const { ${locals.join(", ")} } = all;`,
    `export { ${["all as default", ...exported].join(", ")} };`,
  ].join("\n");
}
