import { KEY } from "../harness/service.ts";
import { startServer, type Server } from "./child.ts";
import { drive, type Load } from "./load.ts";
import { median, runAlone, type BenchRow } from "./row.ts";

const CLIENTS = 64;
const ROUNDS = 4;
const ROUND_MS = 3_000;
const WARM_UP_MS = 2_000;

/** What the model of server.ts says. */
const ANSWER = "Hello! I am well, thanks.";

/** One chat of the benches. */
export const exchange = {
  path: "/v1/chat/completions",
  headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
  body: JSON.stringify({
    model: "agentd",
    messages: [
      { role: "system", content: "You answer in one short sentence." },
      { role: "user", content: "Hello! How are you today?" },
    ],
  }),
  check: (body: string): void => {
    if (!body.includes(ANSWER)) throw new Error("the chat does not have the answer of the model");
  },
};

interface Round {
  readonly perSecond: number;
  readonly cpuMicros: number;
}

/**
 * Whole chats, answered at once by the model, against a bare route that parses the same body and answers the same
 * bytes. Rounds alternate; the medians count. CPU time is less moved by what else the machine does than the rate.
 */
export async function run(): Promise<readonly BenchRow[]> {
  await using service = await startServer("service");
  const answered = await fetch(`${service.url}${exchange.path}`, { method: "POST", ...exchange });
  const answer = await answered.text();
  exchange.check(answer);
  await using bare = await startServer("bare", answer);
  for (const { url } of [service, bare]) await drive({ ...exchange, url, connections: CLIENTS }, WARM_UP_MS);
  const ours: Round[] = [];
  const control: Round[] = [];
  for (let i = 0; i < ROUNDS; i++) {
    ours.push(await round(service));
    control.push(await round(bare));
  }
  const rate = median(ours.map(({ perSecond }) => perSecond));
  const bareRate = median(control.map(({ perSecond }) => perSecond));
  const cpu = median(ours.map(({ cpuMicros }) => cpuMicros));
  const bareCpu = median(control.map(({ cpuMicros }) => cpuMicros));
  return [
    {
      name: `chats answered, ${CLIENTS} clients`,
      value: rate,
      unit: "requests/s",
      control: bareRate,
      ratio: rate / bareRate,
      goal: ">= 0.35x",
      met: rate / bareRate >= 0.35,
    },
    { name: "server CPU for a chat", value: cpu, unit: "us", control: bareCpu, ratio: cpu / bareCpu },
  ];
}

async function round(server: Server): Promise<Round> {
  const load: Load = { ...exchange, url: server.url, connections: CLIENTS };
  const before = await server.cpuMicros();
  const { answers, seconds } = await drive(load, ROUND_MS);
  const used = (await server.cpuMicros()) - before;
  return { perSecond: answers / seconds, cpuMicros: used / answers };
}

await runAlone(import.meta.url, run);
