import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startServer } from "./child.ts";
import { drive } from "./load.ts";
import { GATEWAY_KEY, startGateway, writeHome, type Gateway } from "./program.ts";
import { median, percentile, runAlone, type BenchRow } from "./row.ts";
import { SECRET } from "./webhook-server.ts";
import { push, signed } from "./webhook.ts";

const CLIENTS = 64;
/** Fewer than may wait in a process. */
const BURST = 900;
const ROUNDS = 4;
const MOST_MS = 60_000;
const LOOK_MS = 50;

interface Burst {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** From the first request until the last run has ended; of the control, until the last answer. */
  readonly endedMs: number;
}

/**
 * Signed webhooks that all come at once to the built program, each with a run of the demo model: how soon they are
 * accepted, and how soon all of their runs have ended. Control: a bare route that reads the body and verifies the MAC.
 */
export async function run(): Promise<readonly BenchRow[]> {
  await using bare = await startServer("bare-receiver", JSON.stringify({ status: "accepted" }));
  await using stack = new AsyncDisposableStack();
  const folder = await realpath(await mkdtemp(join(tmpdir(), "agentd-bench-")));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const gateway = stack.use(await startReceiver(folder));
  const [ours, control]: [Burst[], Burst[]] = [[], []];
  for (let n = 0; n <= ROUNDS; n++) {
    const samples = [await burst(gateway.hooksUrl, gateway), await burst(bare.url)] as const;
    // The first round warms up.
    if (n === 0) continue;
    ours.push(samples[0]);
    control.push(samples[1]);
  }
  return rows(ours, control);
}

function rows(ours: readonly Burst[], control: readonly Burst[]): readonly BenchRow[] {
  const row = (name: string, what: keyof Burst, unit: string) => {
    const [value, other] = [
      median(ours.map((each) => each[what])),
      median(control.map((each) => each[what])),
    ];
    return { name, value, unit, control: other, ratio: value / other };
  };
  return [
    row(`webhooks of a burst of ${BURST} accepted, ${CLIENTS} clients`, "perSecond", "requests/s"),
    row("  p50 of accepting one", "p50Ms", "ms"),
    row("  p99 of accepting one", "p99Ms", "ms"),
    row(`  until all ${BURST} runs have ended, none lost`, "endedMs", "ms"),
  ];
}

async function burst(url: string, gateway?: Gateway): Promise<Burst> {
  const before = gateway ? await endedRuns(gateway) : undefined;
  const load = { ...signed("/webhooks/hook", push), url, connections: CLIENTS, most: BURST };
  const startMs = performance.now();
  const { answers, seconds, latenciesMs } = await drive(load, MOST_MS);
  if (answers !== BURST) throw new Error(`${answers} of ${BURST} webhooks were answered in time`);
  if (gateway && before) await untilEnded(gateway, before);
  return {
    perSecond: answers / seconds,
    p50Ms: percentile(latenciesMs, 50),
    p99Ms: percentile(latenciesMs, 99),
    endedMs: performance.now() - startMs,
  };
}

interface Ended {
  readonly all: number;
  readonly completed: number;
}

/** Until as many runs more have ended as there were webhooks, each of them well. */
async function untilEnded(gateway: Gateway, before: Ended): Promise<void> {
  const endMs = performance.now() + MOST_MS;
  let now = await endedRuns(gateway);
  while (now.all - before.all < BURST && performance.now() < endMs) {
    await sleep(LOOK_MS);
    now = await endedRuns(gateway);
  }
  const completed = now.completed - before.completed;
  if (completed === BURST && now.all - before.all === BURST) return;
  throw new Error(`${completed} of ${now.all - before.all} ended runs of ${BURST} webhooks completed`);
}

/** As its metrics tell. */
async function endedRuns({ url }: Gateway): Promise<Ended> {
  const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${GATEWAY_KEY}` } });
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`the metrics were ${text}`);
  const runs = [...text.matchAll(/^agentd_runs_total\{(.*)\} (\d+)$/gm)];
  const sum = (some: typeof runs) => some.reduce((total, [, , count]) => total + Number(count), 0);
  const completed = runs.filter(([, labels]) => labels?.includes('status="completed"'));
  return { all: sum(runs), completed: sum(completed) };
}

async function startReceiver(folder: string): Promise<Gateway & { readonly hooksUrl: string }> {
  const home = join(folder, "agentd");
  await writeHome(home, CONFIG);
  const gateway = await startGateway(folder, home, /listens on (http:\S+)[\s\S]*?hooks {4}(http:\/\/[^/]+)/);
  return { ...gateway, hooksUrl: gateway.match[2] ?? "" };
}

const CONFIG = `api_server: { key: "${GATEWAY_KEY}" }
model: { detect_local: false }
platforms:
  webhook:
    enabled: true
    host: 127.0.0.1
    port: 0
    secret: "${SECRET}"
    rate_limit: 1000000
    routes:
      hook:
        events: [push]
        filters: [{ field: ref, regex: "^refs/heads/" }]
        prompt: "Push to {repository.full_name} by {pusher.name}: {head_commit.message}"
`;

await runAlone(import.meta.url, run);
