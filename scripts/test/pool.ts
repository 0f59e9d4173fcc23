/** Worker processes that share a list of test files: each takes the next file when it is done with one. */
import { fork, type ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { TestResult, WorkerMessage } from "./events.ts";

/** A test that says nothing for so long hangs, also on a machine where everything takes twenty times as long. */
const SILENCE_MS = 300_000;
/** How long after the end of a worker what it wrote may still arrive; a process that it left keeps its output open. */
const LAST_WORDS_MS = 1_000;

export interface FileCost {
  readonly durationMs: number;
  /** Of the worker and of the processes that it started and saw end; undefined where the system does not say. */
  readonly cpuMs: number | undefined;
}

export interface PoolOptions {
  readonly files: readonly string[];
  readonly workers: number;
  readonly env: NodeJS.ProcessEnv;
  readonly nodeArgs?: readonly string[];
  readonly onFileStart: (file: string) => void;
  readonly onResult: (file: string, result: TestResult) => void;
  readonly onFileEnd: (file: string, cost: FileCost) => void;
  /** What a worker wrote, and what its runner remarked. */
  readonly onOutput: (file: string, text: string) => void;
  readonly signal?: AbortSignal;
}

/** Runs all files; resolves when each has ended. A worker that dies fails the file it had, and another takes over. */
export async function runFiles(options: PoolOptions): Promise<void> {
  const queue = [...options.files];
  const workers = Math.min(options.workers, queue.length);
  await Promise.all(Array.from({ length: workers }, () => drain(queue, options)));
}

async function drain(queue: string[], options: PoolOptions): Promise<void> {
  while (queue.length > 0 && !options.signal?.aborted) await runWorker(queue, options);
}

/** One process, until the queue is empty or it dies. */
function runWorker(queue: string[], options: PoolOptions): Promise<void> {
  const { onFileStart, onFileEnd, onResult, onOutput, signal } = options;
  const child = startWorker(options);
  let current: { readonly file: string; readonly startMs: number; readonly startCpuMs: number } | undefined;
  let running = "";
  let hasHung = false;
  const end = () => child.kill("SIGKILL");
  const hang = () => {
    hasHung = true;
    end();
  };
  let watchdog = setTimeout(hang, SILENCE_MS);
  signal?.addEventListener("abort", end, { once: true });

  const finish = () => {
    if (current) {
      const cpuMs = cpuMsOf(child.pid);
      onFileEnd(current.file, {
        durationMs: performance.now() - current.startMs,
        cpuMs: cpuMs === undefined ? undefined : cpuMs - current.startCpuMs,
      });
    }
    current = undefined;
  };
  const next = () => {
    finish();
    running = "";
    const file = queue.shift();
    if (file !== undefined) {
      current = { file, startMs: performance.now(), startCpuMs: cpuMsOf(child.pid) ?? 0 };
      onFileStart(file);
    }
    child.send(file ?? "");
  };
  const take = (message: WorkerMessage) => {
    clearTimeout(watchdog);
    watchdog = setTimeout(hang, SILENCE_MS);
    if (message.type === "begun") running = message.name;
    else if (message.type === "result") onResult(current?.file ?? "", message.result);
    else if (message.type === "note") onOutput(current?.file ?? "", `${message.text}\n`);
    else next();
  };
  next();
  child.on("message", take);
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text: string) => onOutput(current?.file ?? "", text));
  }
  // A worker that is gone before it hears of its next file; its end tells.
  child.on("error", () => {});
  child.once("exit", () => {
    setTimeout(
      () => [child.stdout, child.stderr].forEach((stream) => stream?.destroy()),
      LAST_WORDS_MS,
    ).unref();
  });
  return new Promise((resolve) => {
    child.once("close", (code, killedBy) => {
      clearTimeout(watchdog);
      signal?.removeEventListener("abort", end);
      if (current && !signal?.aborted) {
        const why = hasHung
          ? `no test ended or began within ${SILENCE_MS / 1000} s`
          : `the process ended with ${killedBy ?? code}`;
        onResult(current.file, failure(running || current.file, current.file, why));
      }
      finish();
      resolve();
    });
  });
}

/** Linux says it of each process that has not been waited for; it counts in hundredths of a second. */
function cpuMsOf(pid: number | undefined): number | undefined {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
    return 10 * fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0);
  } catch {
    return undefined;
  }
}

function startWorker({ env, nodeArgs = [] }: PoolOptions): ChildProcess {
  return fork(join(import.meta.dirname, "worker.ts"), {
    env,
    execArgv: [
      `--import=${new URL("tracking.ts", import.meta.url).href}`,
      `--test-reporter=${new URL("events.ts", import.meta.url).href}`,
      // Tests leave much garbage that is young: a larger nursery copies less of it.
      "--max-semi-space-size=64",
      ...nodeArgs,
    ],
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
}

function failure(name: string, place: string, error: string): TestResult {
  return { name, outcome: "failed", durationMs: 0, place, error };
}
