import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { median, runAlone, type BenchRow } from "./row.ts";

const HELPS = 15;
const STARTS = 9;
const GOAL_MS = 300;

const root = fileURLToPath(new URL("../../", import.meta.url));
const program = join(root, "dist/agentd.mjs");

/** How long the built program takes to say its help, and to listen. Builds it when there is none. */
export async function run(): Promise<readonly BenchRow[]> {
  if (!existsSync(program)) await wallMs([join(root, "scripts/build.ts")]);
  return [await help(), ...(await starts())];
}

async function help(): Promise<BenchRow> {
  const ours: number[] = [];
  const bare: number[] = [];
  for (let i = 0; i < HELPS; i++) {
    ours.push(await wallMs([program, "--help"]));
    bare.push(await wallMs(["-e", "0"]));
  }
  const value = median(ours);
  const control = median(bare);
  const ratio = value / control;
  return {
    name: "agentd --help, by node -e 0",
    value,
    unit: "ms",
    control,
    ratio,
    goal: "<= 3x",
    met: ratio <= 3,
  };
}

async function starts(): Promise<readonly BenchRow[]> {
  const folder = await mkdtemp(join(tmpdir(), "agentd-bench-"));
  try {
    const fresh: number[] = [];
    const existing: number[] = [];
    for (let i = 0; i < STARTS; i++) {
      fresh.push(await listeningMs(folder, join(folder, `home-${i}`)));
      existing.push(await listeningMs(folder, join(folder, "home-0")));
    }
    return [
      startRow("agentd gateway to listening, fresh home", fresh),
      startRow("agentd gateway to listening, existing home", existing),
    ];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function startRow(name: string, samples: readonly number[]): BenchRow {
  const value = median(samples);
  return { name, value, unit: "ms", goal: `<= ${GOAL_MS} ms`, met: value <= GOAL_MS };
}

/** From the spawn to the line that tells the address. */
async function listeningMs(userHome: string, agentHome: string): Promise<number> {
  const startMs = performance.now();
  const child = spawn(process.execPath, [program, "gateway", "--port", "0"], {
    env: { PATH: process.env["PATH"], HOME: userHome, AGENTD_HOME: agentHome },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const exited = once(child, "exit");
  let said = "";
  for await (const chunk of child.stdout) {
    said += String(chunk);
    if (said.includes("listens on")) break;
  }
  const tookMs = performance.now() - startMs;
  child.kill("SIGTERM");
  await exited;
  if (!said.includes("listens on")) throw new Error(`agentd gateway said ${JSON.stringify(said)}`);
  return tookMs;
}

/** Wall time of a Node process with these arguments, which must end well. */
async function wallMs(args: readonly string[]): Promise<number> {
  const startMs = performance.now();
  const child = spawn(process.execPath, args, { cwd: root, stdio: "ignore" });
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`node ${args.join(" ")} ended with ${String(code)}`);
  return performance.now() - startMs;
}

await runAlone(import.meta.url, run);
