/** Which test files a suite has. */
import { glob, stat } from "node:fs/promises";

/** Folders by suite; README.md of `test/` says what each proves. */
const folders = {
  main: ["test/unit", "test/contract", "test/flows", "test/compat"],
  process: ["test/process"],
  crash: ["test/crash"],
} as const;

export type Suite = keyof typeof folders;

export function isSuite(name: string): name is Suite {
  return Object.hasOwn(folders, name);
}

/** The files of a suite, or those below `paths`, sorted. A path without tests is an error. */
export async function filesOf(suite: Suite, paths: readonly string[]): Promise<string[]> {
  const places = paths.length > 0 ? paths : folders[suite];
  const found = await Promise.all(places.map(filesBelow));
  return [...new Set(found.flat())].toSorted();
}

async function filesBelow(path: string): Promise<string[]> {
  const about = await stat(path).catch(() => undefined);
  if (about?.isFile()) return [path];
  const files: string[] = [];
  for await (const file of glob(`${path.replace(/\/$/, "")}/**/*.test.ts`)) files.push(file);
  if (files.length === 0) throw new Error(`No tests below ${path}: name a folder or a file of test/.`);
  return files;
}
