/** This process, its runtime, its program and its machine. Touches the machine. */
import { constants, existsSync } from "node:fs";
import { access, statfs } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import process from "node:process";
import { clearInterval, setInterval } from "node:timers";
import { fileURLToPath } from "node:url";

export const processId: number = process.pid;

/**
 * Returns the free bytes on the volume of `path`, which need not exist yet. Undefined where the runtime or the system
 * does not report it.
 */
export async function freeBytes(path: string): Promise<number | undefined> {
  if (typeof statfs !== "function") return undefined;
  try {
    const { bavail, bsize } = await statfs(path);
    return bavail * bsize;
  } catch (error) {
    const isMissing = (error as { code?: string }).code === "ENOENT";
    return isMissing && dirname(path) !== path ? freeBytes(dirname(path)) : undefined;
  }
}

/** Returns the path of a program: of a name that is found through PATH, or of a path. Undefined when it cannot be run. */
export async function findProgram(
  name: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<string | undefined> {
  const folders = (env["PATH"] ?? "").split(delimiter).filter(Boolean);
  const paths = name.includes("/") ? [name] : folders.map((folder) => join(folder, name));
  for (const path of paths) {
    const runs = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (runs) return path;
  }
  return undefined;
}

// The runtime: no other file knows which it is

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
function isCompiled(): boolean {
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

// The program

/**
 * Returns the command that runs a JavaScript or TypeScript file on this runtime. The single executable has an option of its
 * own for that, since its machine may have no Node (scripts/binary/start.ts).
 */
export function scriptProgram(path: string): readonly [program: string, ...args: string[]] {
  if (currentRuntime().name === "deno") return [process.execPath, "run", "-A", path];
  return isCompiled() ? [process.execPath, "--run-script", path] : [process.execPath, path];
}

/**
 * Returns the command that starts `agentd`, with absolute paths: the runtime and the program file, unless they are one.
 */
export function ownProgram(): readonly string[] {
  if (isCompiled()) return [process.execPath];
  const runtime = [
    process.execPath,
    ...(currentRuntime().name === "deno" ? ["run", "-A", "--no-check"] : []),
  ];
  const file = candidates().find((path) => existsSync(path));
  if (file === undefined) throw new Error("the file of the command-line program was not found");
  return [...runtime, file];
}

/** The file that was started, the bundle beside it, or the source. */
function candidates(): readonly string[] {
  const [, started = ""] = process.argv;
  const isOurs = /[\\/](?:agentd(?:\.mjs)?|cli[\\/]main\.ts)$/.test(started);
  const near = ["./agentd.mjs", "../agentd.mjs", "../../cli/main.ts"].map((path) =>
    fileURLToPath(new URL(path, import.meta.url)),
  );
  return [...(isOurs ? [started] : []), ...near];
}
