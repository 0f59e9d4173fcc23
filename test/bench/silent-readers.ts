import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
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
const MB = 1_048_576;

const headers = { authorization: `Bearer ${KEY}`, "content-type": "application/json" };

interface Scene {
  readonly name: string;
  /** Megabytes a run, and how many. */
  readonly steps: number;
  readonly runs: number;
  /** Of each run; 0: the chats that make the runs are not read themselves. */
  readonly readers: number;
}

/** AGENTD_BENCH_SCENE=0 to try one alone. */
const ONLY = process.env["AGENTD_BENCH_SCENE"];
const SCENES: readonly Scene[] = [
  { name: "300 silent readers of a run of 50 MB", steps: 50, runs: 1, readers: 300 },
  { name: "384 silent readers of 24 runs of 10 MB", steps: 10, runs: 24, readers: 16 },
  { name: "40 silent chats of 20 MB", steps: 20, runs: 40, readers: 0 },
];

/**
 * Resident memory with clients that connect and never read, and how long others wait meanwhile. Control: one such run
 * with nobody who follows it.
 */
export async function run(): Promise<readonly BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const scene of ONLY === undefined ? SCENES : SCENES.slice(Number(ONLY), Number(ONLY) + 1)) {
    console.error(`  ${scene.name} ...`);
    const alone = await measure({ ...scene, runs: 1, readers: 0 }, "nobody");
    const silent = await measure(scene, "silent");
    rows.push(
      {
        name: `${scene.name}: peak resident memory`,
        value: silent.peakMb,
        unit: "MB",
        control: alone.peakMb,
        ratio: silent.peakMb / alone.peakMb,
        goal: `<= ${GOAL_MB} MB`,
        met: silent.peakMb <= GOAL_MB,
      },
      {
        name: "  others wait, p99",
        value: silent.p99Ms,
        unit: "ms",
        control: alone.p99Ms,
        ratio: silent.p99Ms / alone.p99Ms,
        goal: `<= ${GOAL_P99_MS} ms`,
        met: silent.p99Ms <= GOAL_P99_MS,
      },
    );
  }
  return rows;
}

interface Measured {
  readonly peakMb: number;
  readonly p99Ms: number;
}

async function measure({ steps, runs, readers }: Scene, who: "silent" | "nobody"): Promise<Measured> {
  await using service = await startServer("service");
  const waits: number[] = [];
  const over = new AbortController();
  const looking = look(service, waits, over.signal);
  const sockets: Socket[] = [];
  if (readers === 0 && who === "silent") {
    const body = JSON.stringify({ stream: true, messages: [{ role: "user", content: `long ${steps}` }] });
    for (let at = 0; at < runs; at += 1) sockets.push(open(service, "POST /v1/chat/completions", body));
  } else {
    const ids: string[] = [];
    for (let at = 0; at < runs; at += 1) ids.push(await finishedRun(service, steps));
    for (const id of ids) {
      for (let at = 0; at < readers; at += 1) sockets.push(open(service, `GET /v1/runs/${id}/events`));
    }
  }
  await sleep(REST_MS);
  over.abort();
  await looking;
  const peakMb = peakBytes(service.pid) / MB;
  for (const socket of sockets) socket.destroy();
  return { peakMb, p99Ms: percentile(waits, 99) };
}

/** A client that sends its request and never reads. */
function open({ url }: Server, target: string, body = ""): Socket {
  const { hostname, port, host } = new URL(url);
  const socket = connect(Number(port), hostname).on("error", () => {});
  const lines = [`${target} HTTP/1.1`, `host: ${host}`, `authorization: Bearer ${KEY}`];
  const about = ["content-type: application/json", `content-length: ${Buffer.byteLength(body)}`];
  socket.write(`${[...lines, ...about].join("\r\n")}\r\n\r\n${body}`);
  return socket.pause();
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
