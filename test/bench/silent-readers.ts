import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { KEY } from "../harness/service.ts";
import { startServer, type Server } from "./child.ts";
import { percentile, runAlone, type BenchRow } from "./row.ts";

const GOAL_MB = 400;
const GOAL_P99_MS = 100;
/** How long the readers stay, once all are connected. */
const REST_MS = 8_000;
const LOOK_MS = 20;
const IDLE_LOOK_MS = 200;
const MB = 1_048_576;

/** All chats of a scene are at work at once, and no reader is one too many or cut, which would stop its chat. */
const SETTINGS = JSON.stringify({
  limits: { max_concurrent_runs: 40, max_subscribers_per_run: 100_000, slow_reader_seconds: 3_600 },
});

const headers = { authorization: `Bearer ${KEY}`, "content-type": "application/json" };

interface Scene {
  readonly name: string;
  /** Megabytes a run, and how many. */
  readonly steps: number;
  readonly runs: number;
  /** Of each run, once all have ended and the server was started again; 0: the runs are chats that nobody reads. */
  readonly readers: number;
}

/** AGENTD_BENCH_SCENE=0 to try one alone. */
const ONLY = process.env["AGENTD_BENCH_SCENE"];
const SCENES: readonly Scene[] = [
  { name: "300 silent readers of a run of 50 MB", steps: 50, runs: 1, readers: 300 },
  { name: "384 silent readers of 24 runs of 10 MB", steps: 10, runs: 24, readers: 16 },
  { name: "40 silent chats of 20 MB, all at work at once", steps: 20, runs: 40, readers: 0 },
  { name: "10 silent chats of 20 MB, as many as work at once by default", steps: 20, runs: 10, readers: 0 },
];

/**
 * Resident memory with clients that connect and never read, and how long others wait meanwhile. Readers come to a server
 * that was started again, so that making what they read does not count. Controls: the same server with nobody on it, and
 * of the chats one alone.
 */
export async function run(): Promise<readonly BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const scene of ONLY === undefined ? SCENES : SCENES.slice(Number(ONLY), Number(ONLY) + 1)) {
    console.error(`  ${scene.name} ...`);
    rows.push(...(await (scene.readers > 0 ? finished(scene) : chats(scene))));
  }
  return rows;
}

async function finished({ name, steps, runs, readers }: Scene): Promise<readonly BenchRow[]> {
  const home = await realpath(await mkdtemp(join(tmpdir(), "agentd-bench-")));
  try {
    const made = await make(home, { steps, runs });
    const alone = await watched(home, async () => {});
    const silent = await watched(home, async (service) => {
      const targets = made.ids.flatMap((id) => Array<string>(readers).fill(`GET /v1/runs/${id}/events`));
      for (const target of targets) await open(service, target).answered;
    });
    const making = {
      name: "  the server that made them: peak resident memory",
      value: made.peakMb,
      unit: "MB",
    };
    return [...toRows(name, silent, alone), making];
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}

async function chats({ name, steps, runs }: Scene): Promise<readonly BenchRow[]> {
  const body = JSON.stringify({ stream: true, messages: [{ role: "user", content: `long ${steps}` }] });
  const chat = async (count: number): Promise<Measured> => {
    return watched(undefined, async (service) => {
      const opened = Array.from({ length: count }, () => open(service, "POST /v1/chat/completions", body));
      for (const { answered } of opened) await answered;
      await untilIdle(service);
      await checkCalls(service, count * steps);
    });
  };
  const alone = await chat(1);
  return toRows(name, await chat(runs), alone);
}

function toRows(name: string, silent: Measured, alone: Measured): readonly BenchRow[] {
  const row = (what: keyof Measured, goal: number) => ({
    value: silent[what],
    control: alone[what],
    ratio: silent[what] / alone[what],
    met: silent[what] <= goal,
  });
  return [
    {
      name: `${name}: peak resident memory`,
      unit: "MB",
      goal: `<= ${GOAL_MB} MB`,
      ...row("peakMb", GOAL_MB),
    },
    { name: "  others wait, p99", unit: "ms", goal: `<= ${GOAL_P99_MS} ms`, ...row("p99Ms", GOAL_P99_MS) },
  ];
}

interface Measured {
  readonly peakMb: number;
  readonly p99Ms: number;
}

/** What a service takes and how long others wait from the start of `use` until its clients have rested for a while. */
async function watched(home: string | undefined, use: (service: Server) => Promise<void>): Promise<Measured> {
  await using service = await startServer("service", SETTINGS, home);
  const waits: number[] = [];
  const over = new AbortController();
  const looking = look(service, waits, over.signal);
  await use(service);
  await sleep(REST_MS);
  over.abort();
  await looking;
  const measured = { peakMb: peakBytes(service.pid) / MB, p99Ms: percentile(waits, 99) };
  for (const socket of sockets.splice(0)) socket.destroy();
  return measured;
}

/** Runs that have ended, in the database of `home`. */
async function make(
  home: string,
  { steps, runs }: Pick<Scene, "steps" | "runs">,
): Promise<{ readonly ids: readonly string[]; readonly peakMb: number }> {
  await using service = await startServer("service", SETTINGS, home);
  const ids: string[] = [];
  for (let at = 0; at < runs; at += 1) ids.push(await finishedRun(service, steps));
  await checkCalls(service, runs * steps);
  return { ids, peakMb: peakBytes(service.pid) / MB };
}

/** Resolves when no run is at work. */
async function untilIdle({ url }: Server): Promise<void> {
  for (;;) {
    const answer = await fetch(`${url}/health/detailed`, { headers });
    const { runs } = (await answer.json()) as { runs: { running: number; queued: number } };
    if (runs.running + runs.queued === 0) return;
    await sleep(IDLE_LOOK_MS);
  }
}

/** Throws when runs were shorter than the scene says. The model is also asked for summaries. */
async function checkCalls(service: Server, steps: number): Promise<void> {
  const calls = await service.calls();
  if (calls < steps) throw new Error(`the runs made ${calls} of ${steps} steps`);
}

const sockets: Socket[] = [];

/** A client that sends its request, looks whether it was taken, and never reads on. Rejects when it was not. */
function open({ url }: Server, target: string, body = ""): { readonly answered: Promise<void> } {
  const { hostname, port, host } = new URL(url);
  const socket = connect(Number(port), hostname).on("error", () => {});
  sockets.push(socket);
  const lines = [`${target} HTTP/1.1`, `host: ${host}`, `authorization: Bearer ${KEY}`];
  const about = ["content-type: application/json", `content-length: ${Buffer.byteLength(body)}`];
  socket.write(`${[...lines, ...about].join("\r\n")}\r\n\r\n${body}`);
  const answered = once(socket, "data").then(([chunk]) => {
    socket.pause();
    const status = String(chunk).split("\r\n", 1)[0] ?? "";
    if (!status.includes(" 200 ")) throw new Error(`${target} was refused: ${status}`);
  });
  return { answered };
}

async function finishedRun({ url }: Server, steps: number): Promise<string> {
  const body = JSON.stringify({ input: `long ${steps}` });
  const accepted = await fetch(`${url}/v1/runs`, { method: "POST", headers, body });
  const { run_id: id } = (await accepted.json()) as { run_id: string };
  for (;;) {
    const answer = await fetch(`${url}/v1/runs/${id}?wait=60`, { headers });
    const { status } = (await answer.json()) as { status: string };
    if (status === "completed") return id;
    if (status !== "queued" && status !== "running") throw new Error(`the run is ${status}`);
  }
}

/** Asks for what others ask, again and again, and notes how long each waited. */
async function look({ url }: Server, waits: number[], signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const startedMs = performance.now();
    await (await fetch(`${url}/health`)).arrayBuffer();
    waits.push(performance.now() - startedMs);
    await sleep(LOOK_MS);
  }
}

/** The most that was resident at any time. Linux only. */
function peakBytes(pid: number): number {
  const kilobytes = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kilobytes) * 1_024;
}

await runAlone(import.meta.url, run);
