/** Where runtimes keep what they made of our sources, for programs that get an environment of their own. */
import process from "node:process";

/** Variables to hand on: Deno finds its folder through HOME otherwise; Node keeps nothing unless it is told where. */
export function codeCache(): Readonly<Record<string, string>> {
  const { DENO_DIR, NODE_COMPILE_CACHE: folder, HOME = "/tmp" } = process.env;
  if ("Deno" in globalThis) return { DENO_DIR: DENO_DIR ?? `${HOME}/.cache/deno` };
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: folder };
}
