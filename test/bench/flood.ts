import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { median, runAlone, type BenchRow } from "./row.ts";

/** What the child tells of its one turn. */
export interface FloodReply {
  /** The final event, with what the tool answered; of a bare reader, how much it read. */
  readonly text: string;
  readonly durationMs: number;
  readonly cpuMs: number;
  /** Peak of the resident set in the turn above what it was before. */
  readonly grownBytes: number;
  /** Of a timer of 1 ms, which counts itself. */
  readonly delayP99Ms: number;
}

const ROUNDS = 3;
const MEGABYTE = 1_048_576;
const FLOOD_MB = 500;
const GOAL_MB = 50;
const GOAL_DELAY_MS = 50;
const FLOOD = `yes 'a line of output as commands print them, again and again' | head -c ${FLOOD_MB * MEGABYTE}`;

/**
 * A whole turn whose terminal call prints 500 MB: memory, the event loop's delay and throughput, by the same turn with
 * the output to /dev/null, and by a bare reader of the same pipe, whose memory is what the runtime has not yet collected.
 */
export async function run(): Promise<readonly BenchRow[]> {
  const floods: FloodReply[] = [];
  const silent: FloodReply[] = [];
  const bare: FloodReply[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    silent.push(await inChild("tool", `${FLOOD} > /dev/null`, "No output."));
    bare.push(await inChild("bare", FLOOD, `${FLOOD_MB * MEGABYTE} bytes`));
    floods.push(await inChild("tool", FLOOD, "bytes omitted"));
  }
  const row = (of: (reply: FloodReply) => number, controls: readonly FloodReply[]) => {
    const [value, control] = [median(floods.map(of)), median(controls.map(of))];
    return { value, control, ratio: value / control };
  };
  const grown = ({ grownBytes }: FloodReply) => grownBytes / MEGABYTE;
  const speed = ({ durationMs }: FloodReply) => (FLOOD_MB / durationMs) * 1_000;
  const memory = row(grown, silent);
  const delay = row(({ delayP99Ms }) => delayP99Ms, silent);
  return [
    {
      name: `RSS growth as a command prints ${FLOOD_MB} MB, by the same to /dev/null`,
      ...memory,
      unit: "MB",
      goal: `<= ${GOAL_MB} MB`,
      met: memory.value <= GOAL_MB,
    },
    { name: "the same, by a bare reader of the pipe", ...row(grown, bare), unit: "MB" },
    {
      name: "event loop delay p99 meanwhile, by the same to /dev/null",
      ...delay,
      unit: "ms",
      goal: `<= ${GOAL_DELAY_MS} ms`,
      met: delay.value <= GOAL_DELAY_MS,
    },
    { name: "throughput, by the same to /dev/null", ...row(speed, silent), unit: "MB/s" },
    { name: "throughput, by a bare reader of the pipe", ...row(speed, bare), unit: "MB/s" },
    { name: "CPU meanwhile, by a bare reader of the pipe", ...row(({ cpuMs }) => cpuMs, bare), unit: "ms" },
  ];
}

/** A process for each, whose memory nothing else has stretched. */
async function inChild(how: "tool" | "bare", command: string, expected: string): Promise<FloodReply> {
  const child = fork(fileURLToPath(new URL("flood-child.ts", import.meta.url)), [how, command]);
  const exited = once(child, "exit");
  const gone = exited.then(([code]) => Promise.reject(new Error(`the child ended with ${String(code)}`)));
  gone.catch(() => {});
  const [message] = await Promise.race([once(child, "message"), gone]);
  await exited;
  const reply = message as FloodReply;
  for (const text of how === "tool" ? ["Exit code 0", expected] : [expected]) {
    if (!reply.text.includes(text))
      throw new Error(`the tool did not answer ${text}: ${reply.text.slice(0, 500)}`);
  }
  return reply;
}

await runAlone(import.meta.url, run);
