/** A child of the bench `flood`: runs the command it is given by a terminal call, or reads it bare. Tells its parent. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import process from "node:process";
import type { Script } from "../../src/agent/engines/scripted.ts";
import { createTerminal } from "../../src/agent/tools/process/terminal.ts";
import { createTestAgent, type TestAgent } from "../harness/agent.ts";
import type { FloodReply } from "./flood.ts";

const LOOK_MS = 5;
const WARM_UP = "seq 1 20000";

const script: Script = ({ step, user, toolResults }) =>
  step === 0
    ? { calls: [{ tool: "terminal", input: { command: user } }] }
    : { text: toolResults.map(({ text }) => text).join("\n") };

const [, , how, command = ""] = process.argv;
const terminal = createTerminal({ timeoutMs: 60_000, maxOutputBytes: 20_000, envPassthrough: [] });
process.send?.(await (how === "bare" ? bare() : tool()));

async function tool(): Promise<FloodReply> {
  const settings = { policyMode: "yolo", workspace: tmpdir() } as const;
  await using agent = await createTestAgent({ script, tools: [terminal], settings });
  // What the first call of all costs is not what a flood costs.
  await wholeTurn(agent, WARM_UP);
  return await measured(() => wholeTurn(agent, command));
}

/** The least that a reader of the pipe does: it forgets what it gets. */
async function bare(): Promise<FloodReply> {
  const read = async (line: string) => {
    const child = spawn("/bin/sh", ["-c", line], { stdio: ["ignore", "pipe", "ignore"] });
    let bytes = 0;
    child.stdout.on("data", (piece: Uint8Array) => (bytes += piece.length));
    await once(child, "close");
    return `${bytes} bytes`;
  };
  await read(WARM_UP);
  return measured(() => read(command));
}

async function measured(work: () => Promise<string>): Promise<FloodReply> {
  const loop = monitorEventLoopDelay({ resolution: 1 });
  const beforeBytes = process.memoryUsage.rss();
  let peakBytes = beforeBytes;
  const look = () => (peakBytes = Math.max(peakBytes, process.memoryUsage.rss()));
  const looking = setInterval(look, LOOK_MS);
  loop.enable();
  const [startedMs, usage] = [performance.now(), process.cpuUsage()];
  const text = await work();
  const durationMs = performance.now() - startedMs;
  const { user, system } = process.cpuUsage(usage);
  loop.disable();
  clearInterval(looking);
  look();
  return {
    text,
    durationMs,
    cpuMs: (user + system) / 1_000,
    grownBytes: peakBytes - beforeBytes,
    delayP99Ms: loop.percentile(99) / 1e6,
  };
}

/** What the tool answered, as the model said it. */
async function wholeTurn({ store, runs }: TestAgent, prompt: string): Promise<string> {
  const { runId, sessionId } = await runs.submit({
    address: { owner: "bench" },
    seed: { source: "bench" },
    kind: "run",
    input: { prompt: [{ role: "user", text: prompt }], settings: {}, answerable: false },
  });
  let text = "";
  for await (const events of store.journal.follow({ runId })) {
    const last = events.at(-1);
    if (!/^run\.(completed|failed|cancelled|interrupted)$/.test(last?.type ?? "")) continue;
    text = JSON.stringify(last);
    break;
  }
  if (!text.includes("run.completed")) throw new Error(`the run in ${sessionId} ended with ${text}`);
  return text;
}
