import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

export const root: string = fileURLToPath(new URL("../../", import.meta.url));

/** The built program, which is built when there is none. AGENTD_BENCH_PROGRAM names another. */
export async function buildProgram(): Promise<string> {
  const program = process.env["AGENTD_BENCH_PROGRAM"] ?? join(root, "dist/agentd.mjs");
  if (!existsSync(program)) await wallMs([join(root, "scripts/build.ts")]);
  return program;
}

/** Wall time of a Node process with these arguments, which must end well. */
export async function wallMs(args: readonly string[]): Promise<number> {
  const startMs = performance.now();
  const child = spawn(process.execPath, args, { cwd: root, stdio: "ignore" });
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`node ${args.join(" ")} ended with ${String(code)}`);
  return performance.now() - startMs;
}
