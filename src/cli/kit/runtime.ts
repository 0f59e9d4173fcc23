/** Runtime tuning: the compile cache and the heap size. Touches the machine. */
import { existsSync, rmSync } from "node:fs";
import nodeModule from "node:module";
import { join } from "node:path";
import packageFile from "../../../package.json" with { type: "json" };
import v8 from "node:v8";

/**
 * Caches compiled modules in `<home>/cache/code/<version>`, a few megabytes, for faster starts. The cache is in the home
 * because whoever can write to it controls what runs. Does nothing when run from source, without a home, or on Deno,
 * which has its own cache.
 */
export function keepCompiledCode(home: string): void {
  const isBuilt = import.meta.url.endsWith(".mjs");
  if (!isBuilt || typeof nodeModule.enableCompileCache !== "function" || !existsSync(home)) return;
  const folder = join(home, "cache", "code");
  const own = join(folder, packageFile.version);
  try {
    if (!existsSync(own)) rmSync(folder, { recursive: true, force: true });
  } catch {
    // The home is unusable. The command itself reports that.
    return;
  }
  nodeModule.enableCompileCache(own);
}

/**
 * V8 reads these flags whenever it resizes its heap, so they take effect in a running process:
 * - the young generation keeps its size, which V8 would otherwise double up to 128 MB;
 * - the old generation is collected when it has grown by half, not by a multiple.
 */
const FLAGS = ["--semi-space-growth-factor=1", "--heap-growing-percent=50"];

/**
 * Makes V8 collect garbage instead of growing the heap. For a process that an editor keeps open all day: streams create
 * much garbage and retain little.
 */
export function keepHeapSmall(): void {
  for (const flag of FLAGS) v8.setFlagsFromString(flag);
}
