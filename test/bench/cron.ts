import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "../../src/base/time.ts";
import { silentLog } from "../../src/base/observe.ts";
import { Ticker } from "../../src/cron/tick/ticker.ts";
import { openStore } from "../../src/store/open.ts";
import type { Store } from "../../src/store/store.ts";
import type { CronJobRow } from "../../src/store/schema/tables.ts";
import { jobRow } from "../unit/cron/ticking.ts";
import { startServer, type Server } from "./child.ts";
import { bareTimers, TIMERS } from "./cron-timers.ts";
import { median, percentile, runAlone, type BenchRow } from "./row.ts";

const JOBS = 10_000;
const DUE = 500;
const DUE_WITHIN_MS = 1_000;
const STARTS = 5;
/** From the start of a service until its jobs come due: it has nothing else to do by then. */
const LEAD_MS = 6_000;
const IDLE_MS = 10_000;
const PATIENCE_MS = 60_000;
const MB = 1_048_576;

/** What ten thousand jobs cost a service that waits for them, and how soon those begin that come due. */
export async function run(): Promise<readonly BenchRow[]> {
  const parts = { starts, idle, firing };
  const rows: BenchRow[] = [];
  for (const [name, measure] of Object.entries(parts)) {
    console.error(`  ${name} ...`);
    rows.push(...(await measure()));
  }
  return rows;
}

/** Control: as many timers of croner, one a job, as a scheduler without a store would hold them. */
async function starts(): Promise<readonly BenchRow[]> {
  await using home = await Home.open(JOBS);
  const samples: number[] = [];
  for (let n = 0; n < STARTS; n++) {
    const store = await openStore({ url: home.url });
    const startMs = performance.now();
    const ticker = new Ticker({
      store,
      clock: systemClock,
      log: silentLog,
      homes: new Map(),
      settings: { catchUpMissed: true, maxParallelJobs: 16, wrapResponse: true, silentMatch: "contains" },
      fire: async () => {},
    });
    await ticker.start();
    samples.push(performance.now() - startMs);
    await ticker.stop();
    await store.close();
  }
  const { ms } = await bareTimers();
  const [value, control] = [median(samples), (ms * JOBS) / TIMERS];
  const ratio = value / control;
  return [
    {
      name: `scheduler start, ${JOBS} jobs`,
      value,
      unit: "ms",
      control,
      ratio,
      goal: "< 1000 ms",
      met: value < 1_000,
    },
  ];
}

/** Control: the service without a job; of the memory, as many timers of croner. */
async function idle(): Promise<readonly BenchRow[]> {
  const [many, none] = [await idleService(JOBS), await idleService(0)];
  const { residentBytes } = await bareTimers();
  const memory = (many.resident - none.resident) / MB;
  const control = (residentBytes * JOBS) / TIMERS / MB;
  return [
    {
      name: `memory above a service without jobs, ${JOBS} jobs, resident`,
      value: memory,
      unit: "MB",
      control,
      ratio: memory / control,
      goal: "< 60 MB",
      met: memory < 60,
    },
    {
      name: `CPU of a second in which nothing is due, ${JOBS} jobs`,
      value: many.cpuMicros,
      unit: "us",
      control: none.cpuMicros,
      ratio: many.cpuMicros / none.cpuMicros,
    },
  ];
}

async function idleService(jobs: number): Promise<{ readonly resident: number; readonly cpuMicros: number }> {
  await using home = await Home.open(jobs);
  await using server = await startServer("service", "", home.folder);
  await sleep(LEAD_MS);
  const before = await server.cpuMicros();
  await sleep(IDLE_MS);
  const cpuMicros = (((await server.cpuMicros()) - before) * 1_000) / IDLE_MS;
  return { resident: (await server.memory()).resident, cpuMicros };
}

/** Control: a bare loop that waits for the same instants, and writes a row for each. */
async function firing(): Promise<readonly BenchRow[]> {
  const control = await bareWrites();
  const rows: BenchRow[] = [];
  for (const parallel of [1_000, 32]) {
    const { claims, runs, resident } = await lags(parallel);
    const name = `${DUE} of ${JOBS} jobs due within 1 s, ${parallel} at once`;
    rows.push(
      lagRow(`due to claimed, p50, ${name}`, 50, { claims, control }),
      lagRow("  p99", 99, { claims, control }),
      lagRow("  due to its run on record, p50", 50, { claims: runs, control }),
      lagRow("  p99", 99, { claims: runs, control }, parallel > DUE),
      { name: "  memory of the service after it, resident", value: resident / MB, unit: "MB" },
    );
  }
  return rows;
}

function lagRow(
  name: string,
  percent: number,
  { claims, control: bare }: { readonly claims: readonly number[]; readonly control: readonly number[] },
  hasGoal = percent === 99 && !name.includes("record") && bare.length > 0,
): BenchRow {
  const [value, control] = [percentile(claims, percent), percentile(bare, percent)];
  const goal = hasGoal && percent === 99 ? { goal: "< 250 ms", met: value < 250 } : {};
  return { name, value, unit: "ms", control, ratio: value / control, ...goal };
}

interface Lags {
  readonly claims: readonly number[];
  readonly runs: readonly number[];
  readonly resident: number;
}

async function lags(parallel: number): Promise<Lags> {
  await using home = await Home.open(JOBS - DUE);
  const settings = { cron: { max_parallel_jobs: parallel }, agent: { max_steps: 5 } };
  await using server = await startServer("service", JSON.stringify(settings), home.folder);
  const atMs = Date.now() + LEAD_MS;
  await home.add(DUE, (n) => atMs + Math.floor((n * DUE_WITHIN_MS) / DUE));
  await sleep(LEAD_MS + DUE_WITHIN_MS);
  return await home.waitFor(DUE, server);
}

async function bareWrites(): Promise<readonly number[]> {
  await using home = await Home.open(JOBS);
  const { store } = home;
  const waited: number[] = [];
  const startMs = Date.now() + 100;
  const writes: Promise<unknown>[] = [];
  for (let n = 0; n < DUE; n++) {
    const dueMs = startMs + Math.floor((n * DUE_WITHIN_MS) / DUE);
    await sleep(Math.max(0, dueMs - Date.now()));
    const row = jobRow({ parts: {}, nowMs: dueMs }, { due_at: null, next_run_at: null });
    const id = `bare-${n}`;
    writes.push(
      store
        .write((tx) => tx.insert("cron_jobs", [{ ...row, id }]))
        .then(() => waited.push(Date.now() - dueMs)),
    );
  }
  await Promise.all(writes);
  return waited;
}

/** A home with a database of jobs: those made at first are due in months. */
class Home implements AsyncDisposable {
  readonly folder: string;
  readonly store: Store;

  private constructor(folder: string, store: Store) {
    this.folder = folder;
    this.store = store;
  }

  static async open(jobs: number): Promise<Home> {
    const folder = await realpath(await mkdtemp(join(tmpdir(), "agentd-bench-")));
    const home = new Home(folder, await openStore({ url: join(folder, "state.db") }));
    const farMs = Date.now() + 90 * 86_400_000;
    await home.add(jobs, (n) => farMs + n * 1_000);
    return home;
  }

  get url(): string {
    return join(this.folder, "state.db");
  }

  async add(count: number, atMs: (n: number) => number): Promise<void> {
    const rows = Array.from({ length: count }, (_, n) => benchRow(n, atMs(n)));
    for (let n = 0; n < count; n += 1_000) {
      await this.store.write((tx) => tx.insert("cron_jobs", rows.slice(n, n + 1_000)));
    }
  }

  /** What the jobs that came due waited for their claims, and for their runs. */
  async waitFor(count: number, server: Server): Promise<Lags> {
    const endMs = Date.now() + PATIENCE_MS;
    for (;;) {
      const rows = await this.store.read
        .selectFrom("occurrences")
        .leftJoin("runs", "runs.id", "occurrences.run_id")
        .select([
          "scheduled_at",
          "claimed_at",
          "occurrences.ended_at",
          "runs.created_at as run_at",
          "runs.status as run_status",
        ])
        .execute();
      const ended = rows.filter(({ ended_at: at, run_at: run }) => at !== null && run !== null);
      if (ended.length >= count) {
        const failed = rows.find(({ run_status: status }) => status !== "completed");
        if (failed) throw new Error(`a run is ${String(failed.run_status)}`);
        if (rows.length !== count) throw new Error(`${rows.length} runs of ${count} jobs`);
        const { resident } = await server.memory();
        return {
          claims: rows.map(({ claimed_at: at, scheduled_at: due }) => at - due),
          runs: rows.map(({ run_at: at, scheduled_at: due }) => (at ?? Number.NaN) - due),
          resident,
        };
      }
      if (Date.now() > endMs) throw new Error(`${ended.length} of ${count} jobs have run`);
      await sleep(200);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.store.close();
    await rm(this.folder, { recursive: true, force: true });
  }
}

const ZONES = ["Europe/Berlin", "America/Toronto", "UTC", "Asia/Tokyo"];

const HOURS = 24;

/** As people have them: intervals, and expressions that many share, in the zones of a few. */
function benchRow(n: number, atMs: number): CronJobRow {
  const schedule =
    n % 2 === 0
      ? ({ kind: "interval", minutes: 30 } as const)
      : ({ kind: "cron", expression: `0 ${n % HOURS} * * *` } as const);
  const parts = { name: `job ${n}`, zone: ZONES[n % ZONES.length] ?? "UTC", deliver: "local", schedule };
  return jobRow({ parts, nowMs: atMs - 1_000 }, { next_run_at: atMs, due_at: atMs });
}

await runAlone(import.meta.url, run);
