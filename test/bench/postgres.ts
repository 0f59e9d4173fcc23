import process from "node:process";
import { createTestDatabase } from "../harness/store.ts";
import { exchange } from "./chat.ts";
import { startServer, type Server } from "./child.ts";
import { drive } from "./load.ts";
import { median, runAlone, type BenchRow } from "./row.ts";

const CLIENTS = 64;
const ROUNDS = 4;
const ROUND_MS = 3_000;
const WARM_UP_MS = 2_000;
const PROCESSES = 3;
const GOAL_PER_SECOND = 1_500;
const GOAL_RATIO = 2.5;

/**
 * Chats with an instant model on PostgreSQL, which AGENTD_DATABASE_URL names: by one process, and by three on one database
 * with as many clients each. Control of one process: the same on a SQLite file; of three: one of them.
 */
export async function run(): Promise<readonly BenchRow[]> {
  if (!process.env["AGENTD_DATABASE_URL"]) {
    throw new Error(
      "Set AGENTD_DATABASE_URL to a PostgreSQL server: export AGENTD_DATABASE_URL=$(.ci/postgres start)",
    );
  }
  const database = await createTestDatabase();
  const servers: Server[] = [];
  try {
    const settings = JSON.stringify({ database_url: database.url });
    for (let n = 0; n < PROCESSES; n++) servers.push(await startServer("service", settings));
    await using onFile = await startServer("service");
    return await compare(servers, onFile);
  } finally {
    await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
    await database.drop();
  }
}

async function compare(servers: readonly Server[], onFile: Server): Promise<readonly BenchRow[]> {
  const one = servers.slice(0, 1);
  const rounds: { readonly one: number; readonly all: number; readonly file: number }[] = [];
  await Promise.all([...servers, onFile].map((server) => perSecond(server, WARM_UP_MS)));
  for (let n = 0; n < ROUNDS; n++) {
    rounds.push({
      one: await together(one),
      all: await together(servers),
      file: await together([onFile]),
    });
  }
  const of = (what: "one" | "all" | "file") => median(rounds.map((round) => round[what]));
  const [value, all, file] = [of("one"), of("all"), of("file")];
  return [
    {
      name: `chats on PostgreSQL, ${CLIENTS} clients, by SQLite`,
      value,
      unit: "chats/s",
      control: file,
      ratio: value / file,
      goal: `>= ${GOAL_PER_SECOND}/s`,
      met: value >= GOAL_PER_SECOND,
    },
    {
      name: `  ${PROCESSES} processes, by one`,
      value: all,
      unit: "chats/s",
      control: value,
      ratio: all / value,
      goal: `>= ${GOAL_RATIO}x`,
      met: all >= GOAL_RATIO * value,
    },
  ];
}

async function together(servers: readonly Server[]): Promise<number> {
  const rates = await Promise.all(servers.map((server) => perSecond(server, ROUND_MS)));
  return rates.reduce((sum, rate) => sum + rate, 0);
}

async function perSecond({ url }: Server, forMs: number): Promise<number> {
  const { answers, seconds } = await drive({ ...exchange, url, connections: CLIENTS }, forMs);
  return answers / seconds;
}

await runAlone(import.meta.url, run);
