/** What the runtime made of the built program, kept for the next start. Touches the machine. */
import { existsSync, rmSync } from "node:fs";
import nodeModule from "node:module";
import { join } from "node:path";
import packageFile from "../../../package.json" with { type: "json" };

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
