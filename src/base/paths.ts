/** Where a path leads, by its text alone. Links are the caller's to follow before. */
import { isAbsolute, relative, sep } from "node:path";

/** Whether `path` is `root` or lies below it; both absolute. */
export function isInside(path: string, root: string): boolean {
  const way = relative(root, path);
  return way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}
