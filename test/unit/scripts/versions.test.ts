import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "yaml";
import { apiSpecs } from "../../../scripts/lib/specs.ts";

const root = join(import.meta.dirname, "../../..");
const read = (path: string) => readFile(join(root, path), "utf8");

test("the package, its lock file and every API document have the same version", async () => {
  const { version } = JSON.parse(await read("package.json")) as { version: string };
  const lock = JSON.parse(await read("package-lock.json")) as {
    version: string;
    packages: { "": { version: string } };
  };
  const specs = apiSpecs.map(async ({ source }) => {
    const { info } = parse(await read(join("specs", source))) as { info: { version: string } };
    return [source, info.version] as const;
  });
  const found = [
    ["package-lock.json", lock.version],
    ["package-lock.json packages", lock.packages[""].version],
    ...(await Promise.all(specs)),
  ];
  assert.deepEqual(
    found.filter(([, each]) => each !== version),
    [],
  );
});
