import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildProgram, bundle, spawnReady, startGateway, wallMs, writeHome } from "./program.ts";
import { median, runAlone, type BenchRow } from "./row.ts";

const HELPS = 15;
const STARTS = 9;
const GREETINGS = 20;
const LISTENING_GOAL_MS = { fresh: 220, existing: 180 };
const READY_GOAL_MS = { fresh: 110, existing: 80, configured: 80 };

/** How long the built program takes to say its help, to greet a host, and to listen. */
export async function run(): Promise<readonly BenchRow[]> {
  const program = await buildProgram();
  const folder = await mkdtemp(join(tmpdir(), "agentd-bench-"));
  try {
    return [await help(program), ...(await greetings(program, folder)), ...(await starts(folder))];
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
  await writeHome(configured, CONFIG);
  const [fresh, existing, withConfig, bare]: [number[], number[], number[], number[]] = [[], [], [], []];
  for (let i = 0; i < GREETINGS; i++) {
    fresh.push(await readyMs(program, folder, join(folder, `rpc-${i}`)));
    existing.push(await readyMs(program, folder, join(folder, "rpc-0")));
    withConfig.push(await readyMs(program, folder, configured));
    bare.push(await wallMs(["-e", "0"]));
  }
  const row = (home: keyof typeof READY_GOAL_MS, samples: readonly number[]) =>
    startRow(`agentd rpc to gateway.ready, ${home} home, by node -e 0`, samples, {
      goalMs: READY_GOAL_MS[home],
      bare,
    });
  return [row("fresh", fresh), row("existing", existing), row("configured", withConfig)];
}

const CONFIG = "model:\n  detect_local: false\nsessions:\n  max_queue: 16\n";

/** Control: a bare h3 server, bundled the same way; with what was compiled before only where the home was there before. */
async function starts(folder: string): Promise<readonly BenchRow[]> {
  const entry = fileURLToPath(new URL("bare-h3.ts", import.meta.url));
  const bare = await bundle(entry, join(folder, "bare"));
  const [fresh, existing]: [number[], number[]] = [[], []];
  const [bareFresh, bareExisting]: [number[], number[]] = [[], []];
  for (let i = 0; i < STARTS; i++) {
    fresh.push(await listeningMs(folder, join(folder, `home-${i}`)));
    existing.push(await listeningMs(folder, join(folder, "home-0")));
    bareFresh.push(await bareListeningMs(bare, join(folder, `code-${i}`)));
    bareExisting.push(await bareListeningMs(bare, join(folder, "code-0")));
  }
  const row = (
    home: keyof typeof LISTENING_GOAL_MS,
    samples: readonly number[],
    control: readonly number[],
  ) =>
    startRow(`agentd gateway to listening, ${home} home, by a bare h3 server`, samples, {
      goalMs: LISTENING_GOAL_MS[home],
      bare: control,
    });
  return [row("fresh", fresh, bareFresh), row("existing", existing, bareExisting)];
}

function startRow(
  name: string,
  samples: readonly number[],
  { goalMs, bare }: { readonly goalMs: number; readonly bare: readonly number[] },
): BenchRow {
  const value = median(samples);
  const control = median(bare);
  return {
    name,
    value,
    unit: "ms",
    control,
    ratio: value / control,
    goal: `<= ${goalMs} ms`,
    met: value <= goalMs,
  };
}

/** From the spawn to the line that tells the address. */
async function listeningMs(userHome: string, agentHome: string): Promise<number> {
  await using gateway = await startGateway(userHome, agentHome);
  await checkHealth(gateway.url);
  return gateway.readyMs;
}

/** From the spawn to the first frame. It leaves by the end of its pipe: what is loaded behind the frame is kept compiled. */
async function readyMs(program: string, userHome: string, agentHome: string): Promise<number> {
  const options = { args: [program, "rpc"], ready: /"gateway\.ready"/, userHome, agentHome };
  await using host = await spawnReady(options);
  return host.readyMs;
}

/** The same of a server with one route and nothing else. */
async function bareListeningMs(script: string, codeFolder: string): Promise<number> {
  await using bare = await spawnReady({ args: [script, codeFolder], ready: /listens on (http:\S+)/ });
  await checkHealth(bare.match[1] ?? "");
  return bare.readyMs;
}

/** What says that it listens must answer. It also has its signal handlers by then, and keeps what it compiled as it leaves. */
async function checkHealth(url: string): Promise<void> {
  const answer = await fetch(new URL("/health", url), { headers: { connection: "close" } });
  if (answer.status !== 200) throw new Error(`${url} answered ${answer.status} ${await answer.text()}`);
  await answer.text();
}

await runAlone(import.meta.url, run);
