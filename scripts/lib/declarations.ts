/** The type declarations of the package: those that its entries reach. Touches the machine. */
import { spawnSync } from "node:child_process";
import { readdir, readFile, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import ts from "typescript";

/** The sources of the package's entries. */
const ENTRIES = ["src/index.ts", "src/client/http.ts", "src/client/gateway.ts"];

/**
 * Writes the declarations of the entries, and of what these import, into `folder`. The compiler writes one for every file
 * of the program; the rest is out of reach for those who import the package, and names packages
 * that an installed copy does not have.
 */
export async function writeDeclarations(root: string, folder: string): Promise<void> {
  const args = ["-p", "tsconfig.build.json", "--outDir", folder];
  const result = spawnSync(join(root, "node_modules/.bin/tsc"), args, { cwd: root, stdio: "inherit" });
  if (result.status !== 0) throw new Error("the type declarations could not be made");
  const reached = new Set<string>();
  for (const entry of ENTRIES) await reach(declarationOf(join(folder, entry)), reached);
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  await Promise.all(files.filter((file) => !reached.has(file)).map((file) => rm(file)));
}

async function reach(file: string, reached: Set<string>): Promise<void> {
  if (reached.has(file)) return;
  reached.add(file);
  const { importedFiles } = ts.preProcessFile(await readFile(file, "utf8"));
  const own = importedFiles.map(({ fileName }) => fileName).filter((name) => name.startsWith("."));
  for (const name of own) await reach(declarationOf(join(dirname(file), name)), reached);
}

function declarationOf(source: string): string {
  return source.replace(/(?<!\.d)\.ts$/, ".d.ts");
}
