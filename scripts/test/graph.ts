/** What imports what, by reading the sources; types are left out, since they do not run. */
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";

export interface ImportGraph {
  /** Files of the repository that the file imports itself. */
  readonly imports: ReadonlyMap<string, readonly string[]>;
  /** Packages and modules of the runtime that the file imports itself. */
  readonly packages: ReadonlyMap<string, readonly string[]>;
  readonly sources: ReadonlyMap<string, string>;
}

/** Follows the imports of `entries`, static and dynamic. Paths are relative to the working directory. */
export async function readImports(entries: readonly string[]): Promise<ImportGraph> {
  const imports = new Map<string, readonly string[]>();
  const packages = new Map<string, readonly string[]>();
  const sources = new Map<string, string>();
  const queue = [...entries];
  for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
    if (imports.has(file)) continue;
    // Tests of scripts hold sources as text, whose imports lead nowhere.
    const source = await readFile(file, "utf8").catch(() => undefined);
    if (source === undefined) continue;
    sources.set(file, source);
    const found = specifiersIn(source);
    const folder = dirname(file);
    const inside = found.filter((each) => each.startsWith(".")).map((each) => join(folder, each));
    imports.set(file, inside);
    packages.set(
      file,
      found.filter((each) => !each.startsWith(".")),
    );
    queue.push(...inside.filter((each) => /\.tsx?$/.test(each)));
  }
  return { imports, packages, sources };
}

/**
 * How far away each reachable file is: 0 for the file itself, 1 more for each import on the shortest way. Helpers of the
 * tests add nothing: what they import counts as imported by the test.
 */
export function distancesFrom(graph: ImportGraph, file: string): ReadonlyMap<string, number> {
  const distances = new Map([[file, 0]]);
  const isHelper = (each: string) => each.startsWith("test/") && each !== file;
  let [level, distance] = [[file], 0];
  while (level.length > 0) {
    const next: string[] = [];
    for (const at of level) {
      for (const found of graph.imports.get(at) ?? []) {
        if (distances.has(found)) continue;
        distances.set(found, isHelper(found) ? distance : distance + 1);
        (isHelper(found) ? level : next).push(found);
      }
    }
    [level, distance] = [next, distance + 1];
  }
  return distances;
}

const STATIC = /^\s*(?:import|export)\s+(?!type\b)(?:[^"';]*?\sfrom\s+)?"([^"]+)"/gm;
const DYNAMIC = /\bimport\(\s*"([^"]+)"\s*\)/g;

function specifiersIn(source: string): string[] {
  return [STATIC, DYNAMIC].flatMap((pattern) => [...source.matchAll(pattern)].map(([, name = ""]) => name));
}
