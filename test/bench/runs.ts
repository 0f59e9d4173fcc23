import { KEY } from "../harness/service.ts";
import { startServer, untilCalled, type Memory, type Server } from "./child.ts";
import { parseFrames } from "./event-frames.ts";
import { follow } from "./follower.ts";
import { drive } from "./load.ts";
import { resumes } from "./resumes.ts";
import { median, runAlone, type BenchRow } from "./row.ts";

const CLIENTS = 64;
const ROUNDS = 4;
const ROUND_MS = 3_000;
const WARM_UP_MS = 2_000;
const SUBSCRIBERS = 1_000;
const STEPS = 30;
/** The first is a warm-up. */
const FAN_OUT_ROUNDS = 4;
const CUTS = 10_000;
/** The allocators keep what they once had: only what comes on top of that is lost. */
const CUTS_BEFORE = 10_000;
const WHOLE_SHARE = 0.95;
const KB = 1_024;
const MB = 1_048_576;

const headers = { authorization: `Bearer ${KEY}`, "content-type": "application/json" };
const creation = { path: "/v1/runs", headers, body: JSON.stringify({ input: "Hello! How are you today?" }) };

/** What runs cost: to make, to follow by many, to be left by many, and to resume among many others. */
export async function run(): Promise<readonly BenchRow[]> {
  const parts = { creations, fanOut, cuts, resumes };
  const rows: BenchRow[] = [];
  for (const [name, measure] of Object.entries(parts)) {
    console.error(`  ${name} ...`);
    rows.push(...(await measure()));
  }
  return rows;
}

/** Runs recorded and run to their end, against a bare route that parses the same body and answers the same bytes. */
async function creations(): Promise<readonly BenchRow[]> {
  await using service = await startServer("service");
  const accepted = await fetch(`${service.url}${creation.path}`, { method: "POST", ...creation });
  if (accepted.status !== 202) throw new Error(`the answer was ${await accepted.text()}`);
  await using bare = await startServer("bare", await accepted.text());
  const toBoth = { ...creation, statuses: [202], connections: CLIENTS };
  let created = 1 + (await drive({ ...toBoth, url: service.url }, WARM_UP_MS)).answers;
  await drive({ ...toBoth, url: bare.url }, WARM_UP_MS);
  const ours: number[] = [];
  const control: number[] = [];
  for (let i = 0; i < ROUNDS; i++) {
    for (const [server, rates] of [
      [service, ours],
      [bare, control],
    ] as const) {
      const { answers, seconds } = await drive({ ...toBoth, url: server.url }, ROUND_MS);
      rates.push(answers / seconds);
      if (server === service) created += answers;
    }
  }
  await untilCalled(service, created);
  const [rate, bareRate] = [median(ours), median(control)];
  return [
    {
      name: `runs created, ${CLIENTS} clients`,
      value: rate,
      unit: "requests/s",
      control: bareRate,
      ratio: rate / bareRate,
      goal: ">= 0.35x",
      met: rate / bareRate >= 0.35,
    },
  ];
}

async function startHeld(service: Server): Promise<string> {
  const body = JSON.stringify({ input: `held ${STEPS}` });
  const response = await fetch(`${service.url}/v1/runs`, { method: "POST", headers, body });
  const text = await response.text();
  if (response.status !== 202) throw new Error(`the answer was ${text}`);
  return (JSON.parse(text) as { readonly run_id: string }).run_id;
}

/** A thousand followers of one run, idle and then told everything, against a bare fan-out of the same bytes. */
async function fanOut(): Promise<readonly BenchRow[]> {
  await using service = await startServer("service");
  const frames = await recordFrames(service);
  await using bare = await startServer("bare", JSON.stringify(frames));
  const ours: Round[] = [];
  const control: Round[] = [];
  for (let i = 0; i < FAN_OUT_ROUNDS; i++) {
    const id = await startHeld(service);
    ours.push(await fanOutRound(service, `/v1/runs/${id}/events`, frames));
    control.push(await fanOutRound(bare, "/v1/runs/x/events", frames));
  }
  const warm = (rounds: readonly Round[], what: keyof Round) =>
    median(rounds.slice(1).map((each) => each[what]));
  const [rate, bareRate] = [warm(ours, "perSecond"), warm(control, "perSecond")];
  const [cpu, bareCpu] = [warm(ours, "cpuMicros"), warm(control, "cpuMicros")];
  const [used, bareUsed] = [warm(ours, "usedPerIdle"), warm(control, "usedPerIdle")];
  // Later rounds find memory that the first ones have grown.
  const [resident, bareResident] = [ours[0]?.residentPerIdle ?? NaN, control[0]?.residentPerIdle ?? NaN];
  return [
    {
      name: `events delivered, ${SUBSCRIBERS} followers of ${frames.length}`,
      value: rate,
      unit: "events/s",
      control: bareRate,
      ratio: rate / bareRate,
      goal: ">= 0.5x",
      met: rate / bareRate >= 0.5,
    },
    {
      name: "server CPU for an event delivered",
      value: cpu,
      unit: "us",
      control: bareCpu,
      ratio: cpu / bareCpu,
    },
    {
      name: "memory of an idle follower, heap and buffers",
      value: used / KB,
      unit: "KB",
      control: bareUsed / KB,
      ratio: used / bareUsed,
      goal: "<= 20 KB",
      met: used <= 20 * KB,
    },
    {
      name: "memory of an idle follower, resident, first round",
      value: resident / KB,
      unit: "KB",
      control: bareResident / KB,
      ratio: resident / bareResident,
    },
  ];
}

interface Round {
  readonly perSecond: number;
  readonly cpuMicros: number;
  readonly usedPerIdle: number;
  readonly residentPerIdle: number;
}

async function fanOutRound(server: Server, path: string, frames: readonly string[]): Promise<Round> {
  const before = await server.memory();
  const followers = await follow(server.url, path, SUBSCRIBERS);
  const idle = await server.memory();
  const cpuBefore = await server.cpuMicros();
  const startMs = performance.now();
  server.go();
  await Promise.all(followers.map((follower) => follower.ended));
  const seconds = (performance.now() - startMs) / 1_000;
  const cpu = (await server.cpuMicros()) - cpuBefore;
  const lengths = followers.map(({ bytes }) => bytes);
  const [least, most] = [Math.min(...lengths), Math.max(...lengths)];
  if (most - least > 10_000) throw new Error("a follower lost events");
  // Ids and times of another run are as long, or nearly so.
  const wanted = frames.join("").length * WHOLE_SHARE;
  if (least < wanted) throw new Error(`a follower got ${least} bytes of ${wanted}`);
  const deliveries = SUBSCRIBERS * frames.length;
  return {
    perSecond: deliveries / seconds,
    cpuMicros: cpu / deliveries,
    usedPerIdle: (idle.used - before.used) / SUBSCRIBERS,
    residentPerIdle: (idle.resident - before.resident) / SUBSCRIBERS,
  };
}

/** The frames of such a run, as they are sent. */
async function recordFrames(service: Server): Promise<string[]> {
  const id = await startHeld(service);
  const response = await fetch(`${service.url}/v1/runs/${id}/events`, { headers });
  service.go();
  const events = parseFrames(await response.text());
  const last = events.at(-1);
  if (events.length < STEPS || last?.event !== "run.completed") {
    throw new Error(`the run told ${events.length} events, at last ${JSON.stringify(last)}`);
  }
  return events.map(({ event, id, data }) => `event: ${event}\nid: ${id}\ndata: ${data}\n\n`);
}

/** Streams that are opened and cut without a word must leave nothing behind. */
async function cuts(): Promise<readonly BenchRow[]> {
  await using service = await startServer("service");
  const path = `/v1/runs/${await startHeld(service)}/events`;
  const cut = async (count: number): Promise<Memory> => {
    for (let left = count; left > 0; left -= 500) {
      const followers = await follow(service.url, path, Math.min(500, left));
      for (const follower of followers) follower.cut();
    }
    return service.memory();
  };
  const before = await cut(CUTS_BEFORE);
  const after = await cut(CUTS);
  // The run ends with the server only once it is let go.
  service.go();
  const resident = (after.resident - before.resident) / MB;
  const used = (after.used - before.used) / MB;
  return [
    {
      name: `${CUTS} more streams cut, resident memory`,
      value: resident,
      unit: "MB",
      goal: "<= 10 MB",
      met: resident <= 10,
    },
    { name: `${CUTS} more streams cut, heap and buffers`, value: used, unit: "MB" },
  ];
}

await runAlone(import.meta.url, run);
