import process from "node:process";
import type { Engine, EngineEvent, EngineTurn, TurnPorts, Message } from "../../src/agent/engine.ts";
import { createScriptedEngine, type Script } from "../../src/agent/engines/scripted.ts";
import { systemClock } from "../../src/base/time.ts";
import { createTestAgent, testTool, type TestAgent } from "../harness/agent.ts";
import { median, runAlone, type BenchRow } from "./row.ts";

const ROUNDS = 5;
const TURNS = 2_000;
const ROOM_TURNS = 1_000;
const AT_ONCE = 64;
const PIECES = Array.from({ length: 25 }, (_, i) => `word ${i} `);

/** A turn: two model calls with 25 deltas each, and one tool call between them. */
const script: Script = ({ step }) => ({
  text: PIECES,
  ...(step === 0 ? { calls: [{ tool: "terminal", input: { command: "echo hello" } }] } : {}),
});

/** CPU time of a turn in this process: the loop alone against a bare one, and the whole room with its store. */
export async function run(): Promise<readonly BenchRow[]> {
  const engine = createScriptedEngine(script, { clock: systemClock });
  const ours: number[] = [];
  const bare: number[] = [];
  for (let i = 0; i <= ROUNDS; i++) {
    const mine = await cpuMs(TURNS, () => wholeTurn(engine));
    const theirs = await cpuMs(TURNS, () => bareTurn(turn().ports));
    // The first round warms up.
    if (i === 0) continue;
    ours.push(mine);
    bare.push(theirs);
  }
  const value = median(ours);
  const control = median(bare);
  const row = { name: "CPU of a turn, scripted engine by a bare loop", value, unit: "ms" };
  return [{ ...row, control, ratio: value / control }, await deps(value)];
}

async function wholeTurn(engine: Engine): Promise<void> {
  const { stop, text } = await engine.runTurn(turn());
  if (stop !== "end" || text !== PIECES.join("")) throw new Error(`a turn ended with ${stop}: ${text}`);
}

/** Turns as the service runs them, many at once: recorded, judged and journalled. */
async function deps(engineMs: number): Promise<BenchRow> {
  const tool = testTool(async () => "hello");
  await using agent = await createTestAgent({ script, tools: [tool], settings: { policyMode: "yolo" } });
  const samples: number[] = [];
  for (let i = 0; i <= ROUNDS; i++) {
    const sample = await cpuMs(ROOM_TURNS / AT_ONCE, () => submitMany(agent));
    if (i > 0) samples.push(sample / AT_ONCE);
  }
  const value = median(samples);
  const name = `CPU of a turn with room and store, ${AT_ONCE} at once`;
  return { name, value, unit: "ms", control: engineMs, ratio: value / engineMs };
}

async function submitMany(agent: TestAgent): Promise<void> {
  const submitted = await Promise.all(Array.from({ length: AT_ONCE }, () => agent.submit("go")));
  const events = await Promise.all(submitted.map(({ runId }) => agent.events(runId)));
  const failed = events.find((each) => each.at(-1)?.type !== "run.completed");
  if (failed) throw new Error(`a run ended with ${JSON.stringify(failed.at(-1))}`);
}

async function cpuMs(count: number, work: () => Promise<unknown>): Promise<number> {
  const rounds = Math.ceil(count);
  const before = process.cpuUsage();
  for (let i = 0; i < rounds; i++) await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000 / rounds;
}

function turn(): EngineTurn {
  const events: EngineEvent[] = [];
  const saved: Message[] = [];
  return {
    runId: "run_bench",
    model: { provider: "demo", id: "demo" },
    instructions: "Be good.",
    messages: [{ role: "user", text: "go" }],
    tools: [],
    settings: {},
    maxSteps: 10,
    signal: new AbortController().signal,
    ports: {
      emit: (event) => void events.push(event),
      callTool: async () => ({ status: "ok", text: "hello" }),
      takeSteers: () => [],
      saveStep: ({ messages }) => void saved.push(...messages),
    },
  };
}

/** The same calls of the ports, and nothing else. */
async function bareTurn(ports: TurnPorts): Promise<string> {
  let text = "";
  for (const step of [0, 1]) {
    text = "";
    for (const piece of PIECES) {
      text += await Promise.resolve(piece);
      ports.emit({ type: "message.delta", messageId: `msg_${step}`, text: piece });
    }
    if (step === 0) await ports.callTool({ callId: "call_0", tool: "terminal", input: {} });
  }
  return text;
}

await runAlone(import.meta.url, run);
