import { Agent, request } from "node:http";
import { KEY } from "../harness/service.ts";
import { chatTexts } from "./chat-text.ts";
import { startServer, type Server } from "./child.ts";
import { median, percentile, runAlone, type BenchRow } from "./row.ts";

const SAMPLES = 200;
const WARM_UPS = 20;
const THINKING_MS = 10;
const STALL_MS = 10;
const STREAMS = 100;
const DELTAS = 200;
const PACE_MS = 5;
const ROUNDS = 4;

/** How soon text reaches the client, and what a hundred streams cost the server. */
export async function run(): Promise<readonly BenchRow[]> {
  await using service = await startServer("service");
  await using bare = await startServer("bare");
  const agent = new Agent({ keepAlive: true, maxSockets: STREAMS });
  try {
    return [...(await firstDeltas(service, agent)), ...(await streams(service, bare, agent))];
  } finally {
    agent.destroy();
  }
}

/** The engine says the time as its first delta; both processes count from the same wall clock. */
async function firstDeltas(service: Server, agent: Agent): Promise<readonly BenchRow[]> {
  const sample = async (count: number, stallMs: number) => {
    const latenciesMs: number[] = [];
    for (let i = 0; i < WARM_UPS; i++) await latency(service, agent, stallMs);
    for (let i = 0; i < count; i++) latenciesMs.push(await latency(service, agent, stallMs));
    return latenciesMs;
  };
  const prompt = await sample(SAMPLES, 0);
  const stalled = await sample(SAMPLES / 2, STALL_MS);
  const p50 = percentile(prompt, 50);
  return [
    { name: "first delta to client, p50", value: p50, unit: "ms", goal: "<= 5 ms", met: p50 <= 5 },
    { name: "first delta to client, p99", value: percentile(prompt, 99), unit: "ms" },
    {
      name: `first delta, ${STALL_MS} ms after its message began, p50`,
      value: percentile(stalled, 50),
      unit: "ms",
    },
  ];
}

async function latency(service: Server, agent: Agent, stallMs: number): Promise<number> {
  let latencyMs = Number.NaN;
  const body = await stream(service, agent, `stamp ${THINKING_MS} ${stallMs}`, (chunk) => {
    const stampMs = /"content":"(\d+\.?\d*)"/.exec(chunk)?.[1];
    if (stampMs !== undefined) latencyMs = performance.timeOrigin + performance.now() - Number(stampMs);
  });
  if (Number.isNaN(latencyMs)) throw new Error(`the stream has no time in it: ${body}`);
  return latencyMs;
}

interface Round {
  readonly cpuMicrosPerDelta: number;
  readonly framesPerStream: number;
}

/** Streams at once, each a delta about every five milliseconds; the bare route sends a frame for every delta. All must arrive whole. */
async function streams(service: Server, bare: Server, agent: Agent): Promise<readonly BenchRow[]> {
  for (const server of [service, bare]) await round(server, agent);
  const ours: Round[] = [];
  const control: Round[] = [];
  for (let i = 0; i < ROUNDS; i++) {
    ours.push(await round(service, agent));
    control.push(await round(bare, agent));
  }
  const cpu = median(ours.map(({ cpuMicrosPerDelta }) => cpuMicrosPerDelta));
  const bareCpu = median(control.map(({ cpuMicrosPerDelta }) => cpuMicrosPerDelta));
  return [
    {
      name: `server CPU for a delta, ${STREAMS} streams of ${DELTAS}`,
      value: cpu,
      unit: "us",
      control: bareCpu,
      ratio: cpu / bareCpu,
      goal: "<= 40 us",
      met: cpu <= 40,
    },
    {
      name: "frames of a stream, after merging",
      value: median(ours.map(({ framesPerStream }) => framesPerStream)),
      unit: "frames",
      control: median(control.map(({ framesPerStream }) => framesPerStream)),
    },
  ];
}

const EXPECTED = Array.from({ length: DELTAS }, (_, i) => `word ${i} `).join("");

async function round(server: Server, agent: Agent): Promise<Round> {
  const before = await server.cpuMicros();
  const prompt = `deltas ${DELTAS} ${PACE_MS}`;
  const bodies = await Promise.all(
    Array.from({ length: STREAMS }, () => stream(server, agent, prompt, () => {})),
  );
  const used = (await server.cpuMicros()) - before;
  const texts = bodies.map(chatTexts);
  const whole = texts.filter((pieces) => pieces.join("") === EXPECTED).length;
  if (whole !== STREAMS) throw new Error(`${whole} of ${STREAMS} streams arrived whole: ${bodies[0]}`);
  return {
    cpuMicrosPerDelta: used / (STREAMS * DELTAS),
    framesPerStream: median(texts.map((pieces) => pieces.length)),
  };
}

/** One streamed chat; resolves to its whole body. */
function stream(
  server: Server,
  agent: Agent,
  prompt: string,
  onChunk: (chunk: string) => void,
): Promise<string> {
  const body = JSON.stringify({
    model: "agentd",
    stream: true,
    messages: [{ role: "user", content: prompt }],
  });
  const headers = {
    authorization: `Bearer ${KEY}`,
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  };
  return new Promise((resolve, reject) => {
    const sent = request(
      `${server.url}/v1/chat/completions`,
      { method: "POST", agent, headers },
      (answer) => {
        let received = "";
        answer.setEncoding("utf8");
        answer.on("data", (chunk: string) => {
          received += chunk;
          onChunk(chunk);
        });
        answer.on("end", () => {
          if (answer.statusCode === 200 && received.includes("[DONE]")) resolve(received);
          else reject(new Error(`the answer was ${answer.statusCode} ${received}`));
        });
        answer.on("error", reject);
      },
    );
    sent.on("error", reject);
    sent.end(body);
  });
}

await runAlone(import.meta.url, run);
