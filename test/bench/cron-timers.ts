/** The control of the bench `cron`: timers of croner, one a job, in a process of their own. */
import { fork } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { setImmediate } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Cron } from "croner";

/** Fewer than the jobs: ten thousand take most of a gigabyte. */
export const TIMERS = 2_000;

export interface Timers {
  readonly ms: number;
  readonly residentBytes: number;
}

export async function bareTimers(): Promise<Timers> {
  const child = fork(fileURLToPath(import.meta.url), ["timers"], { execArgv: ["--expose-gc"] });
  const [told] = (await once(child, "message")) as [Timers];
  await once(child, "exit");
  return told;
}

if (process.argv[2] === "timers" && process.send) {
  process.send(await measure());
  process.disconnect();
}

async function measure(): Promise<Timers> {
  const before = await resident();
  const startMs = performance.now();
  const options = { timezone: "Europe/Berlin", mode: "5-part", unref: true } as const;
  const timers = Array.from(
    { length: TIMERS },
    (_, n) => new Cron(`${n % 60} ${Math.floor(n / 60) % 24} * * *`, options, () => {}),
  );
  const ms = performance.now() - startMs;
  const after = await resident();
  if (timers.length !== TIMERS) throw new Error("a timer is missing");
  return { ms, residentBytes: after - before };
}

async function resident(): Promise<number> {
  for (let i = 0; i < 4; i++) {
    globalThis.gc?.();
    await setImmediate();
  }
  return process.memoryUsage().rss;
}
