import { spawn } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { median, runAlone, type BenchRow } from "./row.ts";

const ROUNDS = 3;
const GOAL_SECONDS = 5;

/** How long everybody waits in `npm run check` to hear that the generated files are those of the specs. */
export async function run(): Promise<readonly BenchRow[]> {
  const seconds: number[] = [];
  for (let i = 0; i < ROUNDS; i++) {
    const startMs = performance.now();
    const args = ["scripts/codegen.ts", "--check"];
    const cwd = fileURLToPath(new URL("../../", import.meta.url));
    const [code] = await once(spawn(process.execPath, args, { cwd, stdio: "ignore" }), "exit");
    seconds.push((performance.now() - startMs) / 1_000);
    if (code !== 0)
      throw new Error("codegen --check did not come to its end, or found files that are not current");
  }
  const value = median(seconds);
  return [
    {
      name: "codegen --check",
      value,
      unit: "s",
      goal: `< ${GOAL_SECONDS} s`,
      met: value < GOAL_SECONDS,
    },
  ];
}

await runAlone(import.meta.url, run);
