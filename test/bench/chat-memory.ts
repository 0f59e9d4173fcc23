import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { drive } from "./load.ts";
import type { Spawned } from "./program.ts";
import { chat, startProviderServers } from "./provider.ts";
import { runAlone, type BenchRow } from "./row.ts";

/** AGENTD_BENCH_CHATS=500 to try it. */
const CHATS = Number(process.env["AGENTD_BENCH_CHATS"] ?? 10_000);
/** For all of the chats of a step. */
const MOST_MS = 600_000;
/** A process that has nothing to do gives back what it does not need. */
const SETTLE_MS = 2_000;
const GOAL_RATIO = 1.1;
const GOAL_START_MB = 80;
const GOAL_MB = 180;
const MB = 1_048_576;

/**
 * Resident memory of the built program's gateway as it started, after many chats with a model behind HTTP, and after as
 * many again. Control: a bare h3 server that passes the same streams on.
 */
export async function run(): Promise<readonly BenchRow[]> {
  if (!(CHATS > 0)) throw new Error("AGENTD_BENCH_CHATS must be a number of chats.");
  await using servers = await startProviderServers();
  const { gateway, bare, model } = servers;
  const [start, first, second] = await steps(gateway);
  const calls = await model.calls();
  if (calls !== 2 * CHATS) throw new Error(`the model was asked ${calls} times for ${2 * CHATS} chats`);
  const [bareStart, bareFirst, bareSecond] = await steps(bare);
  const row = (name: string, value: number, control: number) => ({
    name,
    value,
    unit: "MB",
    control,
    ratio: value / control,
  });
  return [
    {
      ...row("resident memory of agentd gateway, started, by a bare h3 server", start, bareStart),
      goal: `<= ${GOAL_START_MB} MB`,
      met: start <= GOAL_START_MB,
    },
    {
      ...row(`  after ${CHATS} chats through a provider`, first, bareFirst),
      goal: `<= ${GOAL_MB} MB`,
      met: first <= GOAL_MB,
    },
    {
      ...row(`  after ${CHATS} more`, second, bareSecond),
      goal: `<= ${GOAL_RATIO}x of before`,
      met: second <= GOAL_RATIO * first,
    },
  ];
}

/** Megabytes before, between and after two times so many chats. */
async function steps(server: Spawned & { readonly url: string }): Promise<readonly [number, number, number]> {
  const start = await settled(server);
  await chats(server.url);
  const first = await settled(server);
  await chats(server.url);
  return [start, first, await settled(server)];
}

async function settled(server: Spawned): Promise<number> {
  await sleep(SETTLE_MS);
  return server.residentBytes() / MB;
}

async function chats(url: string): Promise<void> {
  const { answers } = await drive({ ...chat, url, most: CHATS }, MOST_MS);
  if (answers !== CHATS) throw new Error(`${answers} of ${CHATS} chats were answered in time`);
}

await runAlone(import.meta.url, run);
