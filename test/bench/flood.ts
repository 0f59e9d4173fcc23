import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { median, runAlone, type BenchRow } from "./row.ts";

/** What the child tells of its one turn. */
export interface FloodReply {
  /** The final event, with what the tool answered. */
  readonly text: string;
  readonly durationMs: number;
  readonly cpuMs: number;
  /** Peak of the resident set in the turn above what it was before. */
  readonly grownBytes: number;
  /** Of a timer of 1 ms, which counts itself. */
  readonly delayP99Ms: number;
  readonly delayMaxMs: number;
}

const ROUNDS = 3;
const MEGABYTE = 1_048_576;
const FLOOD_MB = 500;
const GOAL_MB = 50;
const GOAL_DELAY_MS = 50;
const FLOOD = `yes 'a line of output as commands print them, again and again' | head -c ${FLOOD_MB * MEGABYTE}`;

/** A whole turn whose terminal call prints 500 MB: memory, the event loop's delay, throughput; by /dev/null. */
export async function run(): Promise<readonly BenchRow[]> {
  const floods: FloodReply[] = [];
  const controls: FloodReply[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    controls.push(await inChild(`${FLOOD} > /dev/null`, "No output."));
    floods.push(await inChild(FLOOD, "bytes cut here"));
  }
  const row = (of: (reply: FloodReply) => number) => {
    const [value, control] = [median(floods.map(of)), median(controls.map(of))];
    return { value, control, ratio: value / control };
  };
  const grown = row(({ grownBytes }) => grownBytes / MEGABYTE);
  const delay = row(({ delayP99Ms }) => delayP99Ms);
  return [
    {
      name: `RSS growth as a command prints ${FLOOD_MB} MB, by the same to /dev/null`,
      ...grown,
      unit: "MB",
      goal: `<= ${GOAL_MB} MB`,
      met: grown.value <= GOAL_MB,
    },
    {
      name: "event loop delay p99 meanwhile",
      ...delay,
      unit: "ms",
      goal: `<= ${GOAL_DELAY_MS} ms`,
      met: delay.value <= GOAL_DELAY_MS,
    },
    { name: "event loop delay max meanwhile", ...row(({ delayMaxMs }) => delayMaxMs), unit: "ms" },
    { name: "throughput", ...row(({ durationMs }) => (FLOOD_MB / durationMs) * 1_000), unit: "MB/s" },
    { name: "CPU of the service meanwhile", ...row(({ cpuMs }) => cpuMs), unit: "ms" },
  ];
}

/** A process for each, whose memory nothing else has stretched. */
async function inChild(command: string, expected: string): Promise<FloodReply> {
  const child = fork(fileURLToPath(new URL("flood-child.ts", import.meta.url)), [command]);
  const exited = once(child, "exit");
  const gone = exited.then(([code]) => Promise.reject(new Error(`the child ended with ${String(code)}`)));
  gone.catch(() => {});
  const [message] = await Promise.race([once(child, "message"), gone]);
  await exited;
  const reply = message as FloodReply;
  for (const text of ["Exit code 0", expected]) {
    if (!reply.text.includes(text))
      throw new Error(`the tool did not answer ${text}: ${reply.text.slice(0, 500)}`);
  }
  return reply;
}

await runAlone(import.meta.url, run);
