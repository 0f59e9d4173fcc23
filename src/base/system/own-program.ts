/** Starts this program as a child. Touches the machine. */
import { existsSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { currentRuntime, isCompiled } from "./runtime.ts";

/**
 * Returns the command that starts `agentd`, with absolute paths: the runtime and the program file, unless they are one.
 */
export function ownProgram(): readonly string[] {
  if (isCompiled()) return [process.execPath];
  const runtime = [
    process.execPath,
    ...(currentRuntime().name === "deno" ? ["run", "-A", "--no-check"] : []),
  ];
  const file = candidates().find((path) => existsSync(path));
  if (file === undefined) throw new Error("the file of the command-line program was not found");
  return [...runtime, file];
}

/** The file that was started, the bundle beside it, or the source. */
function candidates(): readonly string[] {
  const [, started = ""] = process.argv;
  const isOurs = /[\\/](?:agentd(?:\.mjs)?|cli[\\/]main\.ts)$/.test(started);
  const near = ["./agentd.mjs", "../agentd.mjs", "../../cli/main.ts"].map((path) =>
    fileURLToPath(new URL(path, import.meta.url)),
  );
  return [...(isOurs ? [started] : []), ...near];
}
