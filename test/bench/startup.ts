import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { buildProgram, wallMs } from "./program.ts";
import { median, runAlone, type BenchRow } from "./row.ts";

const HELPS = 15;
const STARTS = 9;
const GREETINGS = 20;
const LISTENING_GOAL_MS = 300;
const READY_GOAL_MS = 150;

/** How long the built program takes to say its help, to greet a host, and to listen. */
export async function run(): Promise<readonly BenchRow[]> {
  const program = await buildProgram();
  const folder = await mkdtemp(join(tmpdir(), "agentd-bench-"));
  try {
    return [await help(program), ...(await greetings(program, folder)), ...(await starts(program, folder))];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function help(program: string): Promise<BenchRow> {
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

/** Control: a process that does nothing. */
async function greetings(program: string, folder: string): Promise<readonly BenchRow[]> {
  const configured = join(folder, "home-configured");
  await mkdir(configured, { mode: 0o700 });
  await writeFile(join(configured, "config.yaml"), CONFIG, { mode: 0o600 });
  const [fresh, existing, withConfig, bare]: [number[], number[], number[], number[]] = [[], [], [], []];
  for (let i = 0; i < GREETINGS; i++) {
    fresh.push(await readyMs(program, folder, join(folder, `rpc-${i}`)));
    existing.push(await readyMs(program, folder, join(folder, "rpc-0")));
    withConfig.push(await readyMs(program, folder, configured));
    bare.push(await wallMs(["-e", "0"]));
  }
  const row = (home: string, samples: readonly number[]) =>
    startRow(`agentd rpc to gateway.ready, ${home}`, samples, { goalMs: READY_GOAL_MS, bare });
  return [row("fresh home", fresh), row("existing home", existing), row("configured home", withConfig)];
}

const CONFIG = "model:\n  detect_local: false\nsessions:\n  max_queue: 16\n";

async function starts(program: string, folder: string): Promise<readonly BenchRow[]> {
  const fresh: number[] = [];
  const existing: number[] = [];
  for (let i = 0; i < STARTS; i++) {
    fresh.push(await listeningMs(program, folder, join(folder, `home-${i}`)));
    existing.push(await listeningMs(program, folder, join(folder, "home-0")));
  }
  const goal = { goalMs: LISTENING_GOAL_MS };
  return [
    startRow("agentd gateway to listening, fresh home", fresh, goal),
    startRow("agentd gateway to listening, existing home", existing, goal),
  ];
}

function startRow(
  name: string,
  samples: readonly number[],
  { goalMs, bare }: { readonly goalMs: number; readonly bare?: readonly number[] },
): BenchRow {
  const value = median(samples);
  const control = bare === undefined ? undefined : median(bare);
  return {
    name,
    value,
    unit: "ms",
    ...(control === undefined ? {} : { control, ratio: value / control }),
    goal: `<= ${goalMs} ms`,
    met: value <= goalMs,
  };
}

/** From the spawn to the line that tells the address. */
function listeningMs(program: string, userHome: string, agentHome: string): Promise<number> {
  return saidMs([program, "gateway", "--port", "0"], { userHome, agentHome }, "listens on");
}

/** From the spawn to the first frame. */
function readyMs(program: string, userHome: string, agentHome: string): Promise<number> {
  return saidMs([program, "rpc"], { userHome, agentHome }, '"gateway.ready"');
}

/** From the spawn to what it says; then it is stopped. */
async function saidMs(
  args: readonly string[],
  { userHome, agentHome }: { readonly userHome: string; readonly agentHome: string },
  what: string,
): Promise<number> {
  const startMs = performance.now();
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env["PATH"], HOME: userHome, AGENTD_HOME: agentHome },
    stdio: ["pipe", "pipe", "ignore"],
  });
  const exited = once(child, "exit");
  let said = "";
  for await (const chunk of child.stdout) {
    said += String(chunk);
    if (said.includes(what)) break;
  }
  const tookMs = performance.now() - startMs;
  // A host leaves by the end of its pipe, and what was loaded behind the first frame is kept compiled.
  if (args.includes("rpc")) child.stdin.end();
  else child.kill("SIGTERM");
  await exited;
  if (!said.includes(what)) throw new Error(`agentd ${args[1]} said ${JSON.stringify(said)}`);
  return tookMs;
}

await runAlone(import.meta.url, run);
