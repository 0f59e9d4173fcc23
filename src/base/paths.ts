/** Compares paths by their text alone. The caller resolves links before. */
import { isAbsolute, relative, sep } from "node:path";

/** Returns whether `path` is `root` or below it; both are absolute. */
export function isInside(path: string, root: string): boolean {
  const way = relative(root, path);
  return way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}
