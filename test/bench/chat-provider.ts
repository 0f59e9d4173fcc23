import { drive } from "./load.ts";
import type { Spawned } from "./program.ts";
import { chat, startProviderServers } from "./provider.ts";
import { DELTAS } from "./provider-deltas.ts";
import { median, percentile, runAlone, type BenchRow } from "./row.ts";

const ROUNDS = 4;
const ROUND_MS = 3_000;
const WARM_UP_MS = 3_000;
/** Of CPU time; a chat with an instant model takes half of it. */
const GOAL_MS = 1;
const GOAL_PER_SECOND = 1_000;

interface Round {
  readonly answers: number;
  readonly perSecond: number;
  readonly p99Ms: number;
  readonly cpuMs: number;
}

/**
 * Streamed chats of the built program with a model behind HTTP, as people run it. Controls, in the same rounds: the
 * model itself with the same clients, which is their limit, and of CPU a bare server that passes the same stream on.
 */
export async function run(): Promise<readonly BenchRow[]> {
  await using servers = await startProviderServers();
  const { gateway, model, bare } = servers;
  for (const server of [gateway, model, bare]) await round(server, WARM_UP_MS);
  const rounds: (readonly [ours: Round, alone: Round, passed: Round])[] = [];
  for (let n = 0; n < ROUNDS; n++) {
    const before = await model.calls();
    const ours = await round(gateway, ROUND_MS);
    const calls = (await model.calls()) - before;
    if (calls !== ours.answers)
      throw new Error(`the model was asked ${calls} times for ${ours.answers} chats`);
    rounds.push([ours, await round(model, ROUND_MS), await round(bare, ROUND_MS)]);
  }
  const of = (at: 0 | 1 | 2) => middle(rounds.map((each) => each[at]));
  return rows({ ours: of(0), alone: of(1), passed: of(2) });
}

interface Middles {
  readonly ours: Round;
  readonly alone: Round;
  readonly passed: Round;
}

function rows({ ours, alone, passed }: Middles): readonly BenchRow[] {
  const row = (name: string, unit: string, value: number, control: number) => ({
    name,
    value,
    unit,
    control,
    ratio: value / control,
  });
  const what = `chats through a provider, ${DELTAS} deltas, ${chat.connections} clients, by the model alone`;
  const cpu = "  CPU of agentd for a chat, by a bare h3 server that passes the stream on";
  return [
    {
      ...row(what, "chats/s", ours.perSecond, alone.perSecond),
      goal: `>= ${GOAL_PER_SECOND}/s`,
      met: ours.perSecond >= GOAL_PER_SECOND,
    },
    row("  p99 of a whole chat", "ms", ours.p99Ms, alone.p99Ms),
    { ...row(cpu, "ms", ours.cpuMs, passed.cpuMs), goal: `<= ${GOAL_MS} ms`, met: ours.cpuMs <= GOAL_MS },
    { name: "  CPU of the model for a chat", value: alone.cpuMs, unit: "ms" },
  ];
}

function middle(rounds: readonly Round[]): Round {
  const of = (what: keyof Round) => median(rounds.map((each) => each[what]));
  return { answers: of("answers"), perSecond: of("perSecond"), p99Ms: of("p99Ms"), cpuMs: of("cpuMs") };
}

async function round(server: Spawned & { readonly url: string }, forMs: number): Promise<Round> {
  const before = server.cpuMicros();
  const { answers, seconds, latenciesMs } = await drive({ ...chat, url: server.url }, forMs);
  const cpuMs = (server.cpuMicros() - before) / 1_000 / answers;
  return { answers, perSecond: answers / seconds, p99Ms: percentile(latenciesMs, 99), cpuMs };
}

await runAlone(import.meta.url, run);
