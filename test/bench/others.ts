/** The same work on other software, installed from the registry when the bench runs: the one that people would take instead. */
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Editor, makeHome } from "./acp-editor.ts";
import { drive, type Driven } from "./load.ts";
import { buildProgram, spawnReady } from "./program.ts";
import { median, runAlone, type BenchRow } from "./row.ts";
import { push, receiver, signed } from "./webhook.ts";
import { SECRET } from "./webhook-server.ts";

const WEBHOOKS = "@octokit/webhooks@14.2.0";
const AGENT = "@zed-industries/claude-code-acp@0.16.2";
const ROUNDS = 4;
const ROUND_MS = 3_000;
/** Fewer than may wait in a process of agentd. */
const BURST = 900;
const CLIENTS = 64;
const STARTS = 10;

/** Needs the registry of npm. The control of each row is the other software, named with its version. */
export async function run(): Promise<readonly BenchRow[]> {
  const folder = await mkdtemp(join(tmpdir(), "agentd-others-"));
  try {
    console.error("  installing ...");
    const install = ["install", "--prefix", folder, "--no-audit", "--no-fund", "--silent", WEBHOOKS, AGENT];
    await promisify(execFile)("npm", install);
    return [...(await webhooks(folder)), await greetings(folder)];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Both verify and parse the same deliveries. The other one answers from memory; agentd has recorded a run by then. */
async function webhooks(folder: string): Promise<readonly BenchRow[]> {
  const script = fileURLToPath(new URL("other-webhooks.mjs", import.meta.url));
  await using other = await spawnReady({ args: [script, folder, SECRET], ready: /listens on (http:\S+)/ });
  const load = { ...signed("/webhooks/waiting", push), connections: CLIENTS, most: BURST };
  const [ours, theirs]: [Driven[], Driven[]] = [[], []];
  for (let n = 0; n < ROUNDS; n++) {
    // So many runs may wait in a process: a round is a process of its own.
    await using one = await receiver({});
    await drive({ ...load, ...signed("/webhooks/hook", push), url: one.url, most: BURST / 3 }, ROUND_MS);
    ours.push(await drive({ ...load, url: one.url }, ROUND_MS));
    theirs.push(await drive({ ...load, url: other.match[1] ?? "", statuses: [200, 202] }, ROUND_MS));
  }
  const rate = (all: readonly Driven[]) => median(all.map(({ answers, seconds }) => answers / seconds));
  const p50 = (all: readonly Driven[]) => median(all.map(({ latenciesMs }) => median(latenciesMs)));
  return [
    row(`webhooks accepted, ${CLIENTS} clients, by ${WEBHOOKS}`, "requests/s", rate(ours), rate(theirs)),
    row("  p50 of the answers", "ms", p50(ours), p50(theirs)),
  ];
}

/** From the spawn to the answer of `initialize`, in a home that is there. */
async function greetings(folder: string): Promise<BenchRow> {
  const home = join(folder, "existing");
  await makeHome(home);
  const ours = [await buildProgram(), "acp"];
  const entry = createRequire(join(folder, "package.json")).resolve(
    AGENT.replace(/@[^@]*$/, "/package.json"),
  );
  const theirs = [join(entry, "../dist/index.js")];
  const greet = async (args: readonly string[]): Promise<number> => {
    await using editor = new Editor({ args, folder, home });
    await editor.initialize();
    return performance.now() - editor.startedMs;
  };
  for (const args of [ours, theirs]) await greet(args);
  const [value, control]: [number[], number[]] = [[], []];
  for (let n = 0; n < STARTS; n++) {
    value.push(await greet(ours));
    control.push(await greet(theirs));
  }
  return row(`agentd acp to the answer of initialize, by ${AGENT}`, "ms", median(value), median(control));
}

function row(name: string, unit: string, value: number, control: number): BenchRow {
  return { name, value, unit, control, ratio: value / control };
}

await runAlone(import.meta.url, run);
