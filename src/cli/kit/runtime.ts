/** What the runtime made of the built program, kept for the next start. Touches the machine. */
import { existsSync, rmSync } from "node:fs";
import nodeModule from "node:module";
import { join } from "node:path";
import packageFile from "../../../package.json" with { type: "json" };
import v8 from "node:v8";

/**
 * From now on modules that load are kept compiled in `<home>/cache/code/<version>`, a few megabytes, and taken from there the
 * next time. In the home, because others may not write there: whoever can change what is kept decides what runs. Another
 * version begins anew. Does nothing from source, before there is a home, and where the runtime keeps code by itself (Deno).
 */
export function keepCompiledCode(home: string): void {
  const isBuilt = import.meta.url.endsWith(".mjs");
  if (!isBuilt || typeof nodeModule.enableCompileCache !== "function" || !existsSync(home)) return;
  const folder = join(home, "cache", "code");
  const own = join(folder, packageFile.version);
  try {
    if (!existsSync(own)) rmSync(folder, { recursive: true, force: true });
  } catch {
    // A home that cannot be used: the command says so itself.
    return;
  }
  nodeModule.enableCompileCache(own);
}

/**
 * Read by V8 whenever it sizes its heap, so they count for a process that runs:
 * - new objects get the room they have by now, which V8 would double to 128 MB as long as anything outlives them;
 * - what outlived them is looked through when it has grown by half, where V8 would wait until it is several times as much.
 */
const FLAGS = ["--semi-space-growth-factor=1", "--heap-growing-percent=50"];

/**
 * From now on V8 looks for garbage instead of taking more memory: a stream leaves a lot of it and keeps next to nothing.
 * For a process that one person's editor holds open all day; a service of many would rather have the time.
 */
export function keepHeapSmall(): void {
  for (const flag of FLAGS) v8.setFlagsFromString(flag);
}
