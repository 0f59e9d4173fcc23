import { createHmac } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { startServer, untilCalled, type Server, type ServerKind } from "./child.ts";
import { drive, type Driven, type Load } from "./load.ts";
import { pace } from "./paced.ts";
import { median, percentile, runAlone, type BenchRow } from "./row.ts";
import { SECRET, type ReceiverSettings } from "./webhook-server.ts";

const CLIENTS = 64;
const ROUNDS = 4;
const ROUND_MS = 3_000;
const WARM_UP_MS = 2_000;
const PACED_MS = 5_000;
/** A server is quiet that works for less than a twentieth of this time. */
const QUIET_MS = 250;
const QUIET_LOOKS = 40;
/** Fewer than may wait in a process. */
const BURST = 900;
const LARGE_REQUESTS = 40;
const LARGE_BYTES = 1_048_576;
/** Of the refusals: small, so that one body more is cheap to send. */
const SMALL_LIMIT_BYTES = 65_536;
const WANTED_SHARE = 0.95;

const ACCEPTED = JSON.stringify({
  status: "accepted",
  route: "hook",
  event: "push",
  delivery_id: "x".repeat(36),
});

/** What a receiver costs, against a bare route that reads the same body and verifies the same MAC. */
export async function run(): Promise<readonly BenchRow[]> {
  const parts = { accepts, wholeRuns, refusals, largeBodies };
  const rows: BenchRow[] = [];
  for (const [name, measure] of Object.entries(parts)) {
    console.error(`  ${name} ...`);
    rows.push(...(await measure()));
  }
  return rows;
}

/** A push, as a code host sends it, cut to what most have. */
export const push: string = JSON.stringify({
  ref: "refs/heads/main",
  before: "6113728f27ae82c7b1a177c8d03f9e96e0adf246",
  after: "0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c",
  repository: { id: 186_853_002, full_name: "octo-org/octo-repo", private: false, default_branch: "main" },
  pusher: { name: "octocat", email: "octocat@example.com" },
  head_commit: {
    id: "0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c",
    message: "Explain how events are filtered",
    added: [],
    modified: ["README.md", "docs/events.md"],
    removed: [],
  },
});

export const hook = signed("/webhooks/hook", push);
export const waiting = signed("/webhooks/waiting", push);

/** Verified, filtered, rendered, and recorded with their runs, which wait for another: what comes before the answer. */
async function accepts(): Promise<readonly BenchRow[]> {
  await using bare = await startServer("bare-receiver", ACCEPTED);
  await round({ server: bare, load: waiting }, WARM_UP_MS);
  const ours: Round[] = [];
  const control: Round[] = [];
  for (let n = 0; n < ROUNDS; n++) {
    // So many runs may wait in a process: a round is a process of its own.
    await using one = await receiver({});
    await round({ server: one, load: hook }, WARM_UP_MS);
    await quiet(one);
    ours.push(await round({ server: one, load: waiting, most: BURST }, ROUND_MS));
    control.push(await round({ server: bare, load: waiting, most: BURST }, ROUND_MS));
  }
  const rates = [middle(ours), middle(control)] as const;
  const p50 = { name: "  p50 of the answers", value: rates[0].p50Ms, unit: "ms", control: rates[1].p50Ms };
  return [
    rateRow(`webhooks accepted, ${CLIENTS} clients`, rates, 0.4),
    { ...p50, ratio: p50.value / p50.control },
    cpuRow(rates),
  ];
}

/** With their runs, which the same process makes at once, to their end. */
async function wholeRuns(): Promise<readonly BenchRow[]> {
  await using ours = await receiver({});
  await using bare = await startServer("bare-receiver", ACCEPTED);
  const rates = await compare(ours, bare, hook);
  await untilCalled(ours, rates[0].answers);
  const half = rates[0].perSecond / 2;
  const latencies = await pace({ ...hook, url: ours.url, connections: CLIENTS }, half, PACED_MS);
  await untilCalled(ours, rates[0].answers + latencies.length);
  const bareLatencies = await pace({ ...hook, url: bare.url, connections: CLIENTS }, half, PACED_MS);
  const p99 = percentile(latencies, 99);
  const { goal: _, met: __, ...row } = rateRow(`webhooks accepted and run, ${CLIENTS} clients`, rates, 0);
  return [
    row,
    cpuRow(rates),
    {
      name: `  p99 of the answers at half of that (${Math.round(half)}/s)`,
      value: p99,
      unit: "ms",
      control: percentile(bareLatencies, 99),
      goal: "<= 40 ms",
      met: p99 <= 40,
    },
  ];
}

async function refusals(): Promise<readonly BenchRow[]> {
  await using ours = await receiver({ rate_limit: 1, max_body_bytes: SMALL_LIMIT_BYTES });
  await using bare = await startServer("bare-receiver", ACCEPTED);
  const long = JSON.stringify({ text: "x".repeat(SMALL_LIMIT_BYTES) });
  const unsigned = {
    ...hook,
    headers: { ...hook.headers, "x-hub-signature-256": `sha256=${"0".repeat(64)}` },
  };
  const loads: readonly (readonly [status: number, load: Omit<Load, "url" | "connections">])[] = [
    [401, unsigned],
    [404, { ...hook, path: "/webhooks/nobody" }],
    [413, signed("/webhooks/hook", long)],
    // The first of a minute is taken.
    [429, hook],
  ];
  const rows: BenchRow[] = [];
  for (const [status, load] of loads) {
    const statuses = status === 429 ? [429, 202] : [status];
    const bareStatuses = [status === 401 ? 401 : 202];
    const rates = await compare(ours, bare, { ...load, statuses }, { ...load, statuses: bareStatuses });
    rows.push(rateRow(`webhooks refused with ${status}, ${CLIENTS} clients`, rates, 0.5));
  }
  return rows;
}

/** CPU time of bodies of 1 MB, one after the other. */
async function largeBodies(): Promise<readonly BenchRow[]> {
  await using ours = await receiver({});
  await using bare = await startServer("bare-receiver", ACCEPTED);
  const rows: BenchRow[] = [];
  for (const [name, path] of [
    ["a template", "/webhooks/hook"],
    ["no template", "/webhooks/plain"],
  ] as const) {
    const load = signed(path, large());
    const [cpu, bareCpu] = [await cpuOf(ours, load), await cpuOf(bare, load)];
    rows.push({
      name: `CPU of a body of 1 MB, accepted, ${name}`,
      value: cpu,
      unit: "ms",
      control: bareCpu,
      ratio: cpu / bareCpu,
      goal: "<= 8 ms",
      met: cpu <= 8,
    });
  }
  return rows;
}

async function cpuOf(server: Server, load: Omit<Load, "url" | "connections">): Promise<number> {
  const { body, path, headers } = load;
  const send = async (count: number) => {
    for (let n = 0; n < count; n++) {
      const id = { "x-github-delivery": crypto.randomUUID() };
      const response = await fetch(server.url + path, {
        method: "POST",
        body,
        headers: { ...headers, ...id },
      });
      if (response.status !== 202) throw new Error(`the answer was ${await response.text()}`);
      await response.body?.cancel();
    }
  };
  await send(LARGE_REQUESTS);
  const before = await server.cpuMicros();
  await send(LARGE_REQUESTS);
  return ((await server.cpuMicros()) - before) / LARGE_REQUESTS / 1_000;
}

/** A push of very many commits, of just the length that is taken. */
function large(): string {
  const { head_commit: commit, ...rest } = JSON.parse(push) as { readonly head_commit: object };
  const one = JSON.stringify(commit).length + 1;
  const count = Math.floor((LARGE_BYTES - push.length - 100) / one);
  return JSON.stringify({
    ...rest,
    head_commit: commit,
    commits: Array.from({ length: count }, () => commit),
  });
}

export function receiver(settings: ReceiverSettings, home?: string): Promise<Server> {
  return startServer("receiver" satisfies ServerKind, JSON.stringify(settings), home);
}

/** A request signed as the code host does it, with an id of its own each time. */
export function signed(path: string, body: string): Omit<Load, "url" | "connections"> {
  return {
    path,
    body,
    // Not 200: that is for what was seen before, or is of no interest.
    statuses: [202],
    idHeader: "x-github-delivery",
    headers: {
      "content-type": "application/json",
      "x-github-event": "push",
      "x-hub-signature-256": `sha256=${createHmac("sha256", SECRET).update(body).digest("hex")}`,
    },
  };
}

/** Until the server has done what it still owes, or a while has passed. */
export async function quiet(server: Server): Promise<void> {
  for (let n = 0; n < QUIET_LOOKS; n++) {
    const before = await server.cpuMicros();
    await sleep(QUIET_MS);
    if ((await server.cpuMicros()) - before < QUIET_MS * 50) return;
  }
}

export interface Round {
  /** Of this round; of several, of all of them, the warm-up included. */
  readonly answers: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly cpuMicros: number;
}

/** Rounds alternate; the medians count. */
async function compare(
  ours: Server,
  bare: Server,
  load: Omit<Load, "url" | "connections">,
  bareLoad: Omit<Load, "url" | "connections"> = load,
): Promise<readonly [ours: Round, bare: Round]> {
  const pairs = [
    { server: ours, load, warm: 0, rounds: [] as Round[] },
    { server: bare, load: bareLoad, warm: 0, rounds: [] as Round[] },
  ];
  for (const pair of pairs) pair.warm = (await round(pair, WARM_UP_MS)).answers;
  for (let n = 0; n < ROUNDS; n++) for (const pair of pairs) pair.rounds.push(await round(pair, ROUND_MS));
  const [first, second] = pairs.map(({ warm, rounds }) => middle(rounds, warm));
  if (!first || !second) throw new Error("there are two");
  return [first, second];
}

function middle(rounds: readonly Round[], warm = 0): Round {
  return {
    answers: rounds.reduce((sum, { answers }) => sum + answers, warm),
    perSecond: median(rounds.map(({ perSecond }) => perSecond)),
    p50Ms: median(rounds.map(({ p50Ms }) => p50Ms)),
    cpuMicros: median(rounds.map(({ cpuMicros }) => cpuMicros)),
  };
}

interface RoundPlan {
  readonly server: Server;
  readonly load: Omit<Load, "url" | "connections">;
  /** Requests that are sent at most. */
  readonly most?: number;
}

export async function round({ server, load, most }: RoundPlan, forMs: number): Promise<Round> {
  const before = await server.cpuMicros();
  const bounded = { ...load, url: server.url, connections: CLIENTS, ...(most === undefined ? {} : { most }) };
  const { answers, seconds, latenciesMs, byStatus } = await drive(bounded, forMs);
  checkStatuses(load, { answers, byStatus });
  return {
    answers,
    perSecond: answers / seconds,
    p50Ms: median(latenciesMs),
    cpuMicros: ((await server.cpuMicros()) - before) / answers,
  };
}

/** The first status is what is measured; the others may come a few times. */
function checkStatuses(
  { statuses = [] }: Pick<Load, "statuses">,
  driven: Pick<Driven, "answers" | "byStatus">,
) {
  const [wanted] = statuses;
  const count = wanted === undefined ? driven.answers : (driven.byStatus.get(wanted) ?? 0);
  if (count >= driven.answers * WANTED_SHARE) return;
  throw new Error(`${count} of ${driven.answers} answers were ${String(wanted)}`);
}

function cpuRow([{ cpuMicros: ours }, { cpuMicros: bare }]: readonly [Round, Round]): BenchRow {
  return { name: "  server CPU for one", value: ours, unit: "us", control: bare, ratio: ours / bare };
}

function rateRow(name: string, [ours, bare]: readonly [Round, Round], goal: number): BenchRow {
  const ratio = ours.perSecond / bare.perSecond;
  return {
    name,
    value: ours.perSecond,
    unit: "requests/s",
    control: bare.perSecond,
    ratio,
    goal: `>= ${goal}x`,
    met: ratio >= goal,
  };
}

await runAlone(import.meta.url, run);
