/** The only file that knows which runtime this is. Touches the machine. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import process from "node:process";
import { clearInterval, setInterval } from "node:timers";

export interface Runtime {
  readonly name: "node" | "deno" | "bun";
  readonly version: string;
}

/** Deno and Bun also identify as Node, so they are checked first. */
export function currentRuntime(): Runtime {
  const { deno, bun, node = "unknown" } = process.versions as Readonly<Record<string, string | undefined>>;
  if (deno !== undefined) return { name: "deno", version: deno };
  if (bun !== undefined) return { name: "bun", version: bun };
  return { name: "node", version: node };
}

/** Returns whether the program and its runtime are one executable file. */
export function isCompiled(): boolean {
  const { Deno } = globalThis as { readonly Deno?: { readonly build: { readonly standalone?: boolean } } };
  if (Deno) return Deno.build.standalone === true;
  return process.getBuiltinModule("node:sea")?.isSea() === true;
}

/** Returns the resident memory of this process. */
export function residentBytes(): number {
  return process.memoryUsage().rss;
}

/** Delay of the event loop, in seconds. */
export interface LoopDelay {
  readonly mean: number;
  readonly median: number;
  readonly p99: number;
  readonly max: number;
}

const RESOLUTION_MS = 20;
const DRIFT_EVERY_MS = 50;
const MAX_DRIFTS = 2_400;

/** Measures until `stop`; `read` covers the time since the last call, and is undefined when that was too short. */
export function watchEventLoop(): { read(): LoopDelay | undefined; stop(): void } {
  // Deno has the function, but does not measure the event loop with it.
  return currentRuntime().name === "node" ? watchByMonitor() : watchByTimer();
}

function watchByMonitor() {
  const monitor = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  monitor.enable();
  // Records the time between two ticks, in nanoseconds.
  const seconds = (nanoseconds: number) => Math.max(0, nanoseconds / 1e9 - RESOLUTION_MS / 1000);
  return {
    read() {
      if (monitor.count === 0) return undefined;
      const [median, p99] = [monitor.percentile(50), monitor.percentile(99)];
      const delay = {
        mean: seconds(monitor.mean),
        median: seconds(median),
        p99: seconds(p99),
        max: seconds(monitor.max),
      };
      monitor.reset();
      return delay;
    },
    stop: () => void monitor.disable(),
  };
}

function watchByTimer() {
  let drifts: number[] = [];
  let dueMs = performance.now() + DRIFT_EVERY_MS;
  const timer = setInterval(() => {
    const nowMs = performance.now();
    if (drifts.length < MAX_DRIFTS) drifts.push(Math.max(0, nowMs - dueMs) / 1000);
    dueMs = nowMs + DRIFT_EVERY_MS;
  }, DRIFT_EVERY_MS);
  timer.unref();
  return {
    read() {
      const sorted = drifts.toSorted((a, b) => a - b);
      drifts = [];
      if (sorted.length === 0) return undefined;
      const at = (share: number) => sorted[Math.ceil(share * sorted.length) - 1] ?? 0;
      const mean = sorted.reduce((sum, drift) => sum + drift, 0) / sorted.length;
      return { mean, median: at(0.5), p99: at(0.99), max: at(1) };
    },
    stop: () => clearInterval(timer),
  };
}
