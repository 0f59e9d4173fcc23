import process from "node:process";
import type { EngineTurn, TurnPorts } from "../../src/agent/engine.ts";
import { createScriptedEngine, type Script } from "../../src/agent/engines/scripted.ts";
import { systemClock } from "../../src/base/time.ts";
import { createTestAgent, testTool, type TestAgent } from "../harness/agent.ts";
import { median, runAlone, type BenchRow } from "./row.ts";

const ROUNDS = 5;
const TURNS = 200;
const GOAL_MS = 3;
const GOAL_AT_ONCE = 4;
const PIECES = Array.from({ length: 25 }, (_, i) => `word ${i} `);
const CALL = { tool: "terminal", input: { command: "echo hello" } };

/** Two model calls that take no time, 25 deltas each, and one tool call that the policy allows between them. */
const script: Script = ({ step }) => ({
  text: pieces(),
  ...(step === 0 ? { calls: [CALL] } : {}),
});

async function* pieces(): AsyncGenerator<string> {
  yield* PIECES;
}

/**
 * CPU time of a whole turn, from `Turns.submit` to the end of the run in an SQLite file: by the engine alone with ports
 * that do nothing, and many at once by one after the other.
 */
export async function run(): Promise<readonly BenchRow[]> {
  let calls = 0;
  const tool = testTool(async () => `hello ${++calls}`);
  const bare: number[] = [];
  const single: number[] = [];
  const atOnce: number[] = [];
  await using agent = await createTestAgent({ script, tools: [tool] });
  for (let round = 0; round <= ROUNDS; round++) {
    const control = await cpuMsEach(() => bareTurns());
    const one = await cpuMsEach(() => inSequence(agent));
    const many = await cpuMsEach(() => allAtOnce(agent));
    // The first round warms up.
    if (round === 0) continue;
    bare.push(control);
    single.push(one);
    atOnce.push(many);
  }
  const turns = (ROUNDS + 1) * TURNS * 2;
  if (calls !== turns) throw new Error(`the tool ran ${calls} times in ${turns} turns`);
  const [control, value, many] = [median(bare), median(single), median(atOnce)];
  const ratio = many / value;
  return [
    {
      name: "CPU of a turn with 1 tool and 50 deltas, by the engine alone",
      value,
      unit: "ms",
      control,
      ratio: value / control,
      goal: `<= ${GOAL_MS} ms`,
      met: value <= GOAL_MS,
    },
    {
      name: `CPU of a turn, ${TURNS} at once by one after the other`,
      value: many,
      unit: "ms",
      control: value,
      ratio,
      goal: `<= ${GOAL_AT_ONCE}x`,
      met: ratio <= GOAL_AT_ONCE,
    },
  ];
}

async function bareTurns(): Promise<void> {
  const engine = createScriptedEngine(script, { clock: systemClock });
  for (let i = 0; i < TURNS; i++) {
    const { stop, text } = await engine.runTurn(bareTurn());
    if (stop !== "end" || text !== PIECES.join("")) throw new Error(`a turn ended with ${stop}: ${text}`);
  }
}

async function inSequence(agent: TestAgent): Promise<void> {
  for (let i = 0; i < TURNS; i++) await wholeTurn(agent);
}

async function allAtOnce(agent: TestAgent): Promise<void> {
  await Promise.all(Array.from({ length: TURNS }, () => wholeTurn(agent)));
}

/** Followed to its end as a client would, without the harness's checks of each event, which cost more than the turn. */
async function wholeTurn({ store, runs }: TestAgent): Promise<void> {
  const { runId } = await runs.submit({
    address: { owner: "bench" },
    seed: { source: "bench" },
    kind: "run",
    input: { prompt: [{ role: "user", text: "go" }], settings: {}, answerable: false },
  });
  for await (const events of store.journal.follow({ runId })) {
    const last = events.at(-1)?.type;
    if (last === "run.completed") return;
    if (/^run\.(failed|cancelled|interrupted)$/.test(last ?? "")) throw new Error(`a run ended with ${last}`);
  }
}

/** Of all turns of a round, by each. */
async function cpuMsEach(work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000 / TURNS;
}

const ports: TurnPorts = {
  emit: () => {},
  callTool: async () => ({ status: "ok", text: "hello" }),
  takeSteers: () => [],
  saveStep: () => {},
};

function bareTurn(): EngineTurn {
  return {
    runId: "run_bench",
    model: { provider: "demo", id: "demo" },
    instructions: "Be good.",
    messages: [{ role: "user", text: "go" }],
    tools: [],
    settings: {},
    maxSteps: 10,
    signal: new AbortController().signal,
    ports,
  };
}

await runAlone(import.meta.url, run);
