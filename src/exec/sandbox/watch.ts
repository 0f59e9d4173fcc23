/** Stops sandboxed commands that take more than their share of the machine. Touches the machine: reads /proc. */
import { readdirSync, readFileSync } from "node:fs";
import process from "node:process";
import { systemClock } from "../../base/time.ts";

export interface ResourceLimits {
  readonly maxProcesses: number;
  /** Resident memory of all processes of one command. */
  readonly maxMemoryBytes: number;
}

export type Excess = "processes" | "memory";

interface Watched {
  readonly limits: ResourceLimits;
  readonly onExcess: (excess: Excess) => void;
}

interface Usage {
  processes: number;
  memoryBytes: number;
}

/** A cheap glance at the number of all processes: one that forks endlessly is stopped at some hundreds. */
const GLANCE_MS = 50;
/** So many new processes and threads on the machine are looked at, at once. */
const MAX_GROWTH = 100;
const PERIOD_MS = 200;
/** On a machine with very many processes a look is slow: it may take one fiftieth of the time, within limits. */
const REST_PER_LOOK = 50;
const MAX_REST_MS = 1_000;
const PAGE_BYTES = 4096;

const watched = new Map<number, Watched>();
let stop: (() => void) | undefined;

/**
 * Calls `onExcess` once when `pid` and its descendants exceed the limits. The kernel's own limits count the processes of
 * a user, not of a command, and exempt root. Call the result when the command has ended. Does nothing where there is no
 * /proc.
 */
export function watchResources(pid: number | undefined, entry: Watched): () => void {
  if (pid === undefined || process.platform !== "linux") return () => {};
  watched.set(pid, entry);
  stop ??= start();
  return () => {
    watched.delete(pid);
    if (watched.size > 0) return;
    stop?.();
    stop = undefined;
  };
}

function start(): () => void {
  let seen = countTasks();
  let dueMs = performance.now() + PERIOD_MS;
  let cancel = systemClock.after(GLANCE_MS, glance);
  function glance(): void {
    if (performance.now() >= dueMs || countTasks() - seen > MAX_GROWTH) look();
    if (watched.size > 0) cancel = systemClock.after(GLANCE_MS, glance);
  }
  function look(): void {
    const startedMs = performance.now();
    for (const [pid, { processes, memoryBytes }] of usageOf([...watched.keys()])) {
      const { limits, onExcess } = watched.get(pid) as Watched;
      const excess =
        processes > limits.maxProcesses
          ? "processes"
          : memoryBytes > limits.maxMemoryBytes
            ? "memory"
            : undefined;
      if (excess === undefined) continue;
      watched.delete(pid);
      onExcess(excess);
    }
    const endedMs = performance.now();
    const restMs = (endedMs - startedMs) * REST_PER_LOOK;
    dueMs = endedMs + Math.min(MAX_REST_MS, Math.max(PERIOD_MS, restMs));
    seen = countTasks();
  }
  return () => cancel();
}

/** proc(5): the second number of the fourth field of /proc/loadavg counts the processes and threads of the machine. */
function countTasks(): number {
  return Number(/\/(\d+) /.exec(readFileSync("/proc/loadavg", "utf8"))?.[1]);
}

/** What each root uses together with its descendants. Orphans inside a process namespace stay below its first process. */
function usageOf(roots: readonly number[]): ReadonlyMap<number, Usage> {
  const parents = new Map<number, number>();
  const memory = new Map<number, number>();
  for (const name of readdirSync("/proc")) {
    const pid = Number(name);
    if (!Number.isInteger(pid)) continue;
    const stat = statOf(pid);
    if (stat === undefined) continue;
    parents.set(pid, stat.parent);
    memory.set(pid, stat.memoryBytes);
  }
  const sums = new Map(roots.map((root): [number, Usage] => [root, { processes: 0, memoryBytes: 0 }]));
  for (const pid of parents.keys()) {
    const sum = sums.get(rootOf(pid, { parents, sums }) ?? -1);
    if (sum === undefined) continue;
    sum.processes += 1;
    sum.memoryBytes += memory.get(pid) ?? 0;
  }
  return sums;
}

/** Bounded: a process that ends while the table is read may leave a cycle. */
const MAX_DEPTH = 10_000;

function rootOf(
  pid: number,
  {
    parents,
    sums,
  }: { readonly parents: ReadonlyMap<number, number>; readonly sums: ReadonlyMap<number, Usage> },
): number | undefined {
  let at: number | undefined = pid;
  for (let depth = 0; at !== undefined && depth < MAX_DEPTH; depth += 1) {
    if (sums.has(at)) return at;
    at = parents.get(at);
  }
  return undefined;
}

/** proc(5): the parent is the fourth field, resident pages the 24th; the second, in parentheses, may contain anything. */
function statOf(pid: number): { readonly parent: number; readonly memoryBytes: number } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { parent: Number(fields[1]), memoryBytes: Number(fields[21]) * PAGE_BYTES };
  } catch {
    // It ended in the meantime.
    return undefined;
  }
}
