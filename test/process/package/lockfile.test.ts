/** What npm would warn of when it installs this checkout: .npmrc hides its warnings. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { createRequire } from "node:module";
import packageFile from "../../../package.json" with { type: "json" };

interface Locked {
  readonly version: string;
  readonly engines?: { readonly node?: string };
  readonly deprecated?: string;
  readonly hasInstallScript?: boolean;
  readonly optional?: boolean;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
}

const root = join(import.meta.dirname, "../../..");
/** npm's own, which comes with a tool. */
const { satisfies } = createRequire(import.meta.url)("semver") as {
  satisfies(version: string, range: string, options?: { readonly includePrerelease: boolean }): boolean;
};

async function lockedPackages(): Promise<readonly (readonly [path: string, locked: Locked])[]> {
  const text = await readFile(join(root, "package-lock.json"), "utf8");
  const { packages } = JSON.parse(text) as { readonly packages: Readonly<Record<string, Locked>> };
  return Object.entries(packages).filter(([path]) => path !== "");
}

const nameOf = (path: string) => path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);

test("every locked package accepts the Node of this checkout", async () => {
  const wrong = (await lockedPackages()).filter(
    ([, { engines }]) =>
      engines?.node !== undefined && !satisfies(packageFile.devDependencies.node, engines.node),
  );
  assert.deepEqual(wrong, []);
});

test("no locked package is deprecated", async () => {
  const deprecated = (await lockedPackages()).flatMap(([path, locked]) =>
    locked.deprecated === undefined ? [] : [`${path}: ${locked.deprecated}`],
  );
  assert.deepEqual(deprecated, []);
});

test("every install script of a locked package is allowed in package.json, and no other is", async () => {
  const scripts = (await lockedPackages()).filter(([, { hasInstallScript }]) => hasInstallScript);
  assert.deepEqual(
    [...new Set(scripts.map(([path]) => nameOf(path)))].toSorted(),
    Object.keys(packageFile.allowScripts).toSorted(),
  );
});

test("every peer of a locked package has a version that the package accepts", async () => {
  const packages = await lockedPackages();
  const versions = new Map(packages.map(([path, { version }]) => [path, version]));
  const wrong = packages.flatMap(([path, { peerDependencies = {}, peerDependenciesMeta = {} }]) =>
    Object.entries(peerDependencies).flatMap(([name, range]) => {
      const found = peerOf(versions, path, name);
      if (found === undefined) return peerDependenciesMeta[name]?.optional ? [] : [`${path} lacks ${name}`];
      return satisfies(found, range, { includePrerelease: true })
        ? []
        : [`${path} wants ${name} ${range}: ${found}`];
    }),
  );
  assert.deepEqual(wrong, []);
});

/** Returns the version of what a package finds as `name`: below it, beside it, or in a folder above. */
function peerOf(versions: ReadonlyMap<string, string>, path: string, name: string): string | undefined {
  const folders = path.split("/node_modules/");
  for (let count = folders.length; count > 0; count--) {
    const version = versions.get([...folders.slice(0, count), name].join("/node_modules/"));
    if (version !== undefined) return version;
  }
  return versions.get(`node_modules/${name}`);
}
