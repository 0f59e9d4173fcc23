/** How a folder differs from what the specs give. */
import { hashTree } from "./files.ts";

export interface Drift {
  readonly file: string;
  /** Missing: should be there. Extra: should not. Stale: other bytes. */
  readonly state: "missing" | "extra" | "stale";
}

/** Compares by content; sorted by file. */
export async function findDrift(wantedFolder: string, foundFolder: string): Promise<readonly Drift[]> {
  const [wanted, found] = await Promise.all([hashTree(wantedFolder), hashTree(foundFolder)]);
  return [...new Set([...wanted.keys(), ...found.keys()])]
    .toSorted()
    .filter((file) => wanted.get(file) !== found.get(file) && !isByproduct(file))
    .map((file) => ({ file, state: !found.has(file) ? "missing" : !wanted.has(file) ? "extra" : "stale" }));
}

/** Python leaves what it compiled beside the source. */
function isByproduct(file: string): boolean {
  return file.split("/").includes("__pycache__");
}
