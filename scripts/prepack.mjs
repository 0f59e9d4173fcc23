// Runs before `npm pack` and `npm publish`: builds the program, and stops a package that would lack it.
// Plain JavaScript without dependencies: it must explain itself on any Node, also where nothing is installed.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const { bin, engines, exports: entries } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

if (!existsSync(join(root, "node_modules/esbuild"))) {
  fail("its dependencies are not installed. Run `npm ci` first.");
}
// npm puts the Node of the dependencies first on the path of its scripts.
if (Number.parseInt(process.versions.node) < Number.parseInt(engines.node.replace(/^\D+/, ""))) {
  fail(`it needs Node ${engines.node}; this is ${process.versions.node}.`);
}
const { status } = spawnSync(process.execPath, ["scripts/build.ts"], { cwd: root, stdio: ["ignore", 2, 2] });
if (status !== 0) fail("the build failed; the lines above say why.");

const named = [bin, ...Object.values(entries)].flatMap((entry) =>
  typeof entry === "string" ? [entry] : Object.values(entry),
);
const files = named.filter((path) => !path.includes("*"));
const missing = files.filter((path) => !existsSync(join(root, path)));
if (missing.length > 0) fail(`the build did not make ${missing.join(", ")}.`);

function fail(reason) {
  console.error(`agentd cannot be packed: ${reason}`);
  process.exit(1);
}
