// node scripts/console.ts [--if-stale]: builds the web console into dist/console.
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import process from "node:process";
import { buildConsole, isConsoleStale } from "./lib/console.ts";
import { replaceFolder } from "./lib/files.ts";

const root = resolve(import.meta.dirname, "..");
const folder = join(root, "dist/console");
if (!process.argv.includes("--if-stale") || (await isConsoleStale(root, folder))) {
  const fresh = join(root, `dist-console-${process.pid}.tmp`);
  await mkdir(join(root, "dist"), { recursive: true });
  await buildConsole(root, fresh);
  await replaceFolder(fresh, folder);
}
