/** The cache of compiled code of the commands that run for long or often. Touches the machine. */
import { existsSync, rmSync } from "node:fs";
import nodeModule from "node:module";
import { join } from "node:path";
import packageFile from "../../../package.json" with { type: "json" };
import { ServiceError } from "../../base/errors.ts";
import { currentContext } from "./context.ts";

/**
 * Caches compiled modules in `<home>/cache/code/<version>`, a few megabytes, for faster starts: of what loads after this
 * call. The cache is in the home because anyone who can write to it controls what runs. Does nothing when run from source,
 * without a home, and on Deno, which has its own cache.
 */
export function keepCompiledCode(): void {
  const isBuilt = import.meta.url.endsWith(".mjs");
  if (!isBuilt || typeof nodeModule.enableCompileCache !== "function") return;
  try {
    const { home } = currentContext();
    if (!existsSync(home)) return;
    const folder = join(home, "cache", "code");
    const own = join(folder, packageFile.version);
    if (!existsSync(own)) rmSync(folder, { recursive: true, force: true });
    nodeModule.enableCompileCache(own);
  } catch (error) {
    // A home that is unusable, or a profile that is not valid: what needs the home reports that, in its own way.
    if (!(error instanceof ServiceError) && !(error instanceof Error && "code" in error)) throw error;
  }
}
