/** Tickers over a database on a clock that the test moves. What they claim is run by the test, not by an agent. */
import { cronJobRow } from "../store/rows.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { createLog } from "../../../src/base/observe.ts";
import type { Claimed } from "../../../src/cron/tick/claim.ts";
import type { JobDefinition } from "../../../src/cron/job/job.ts";
import { nextRunMs } from "../../../src/cron/schedule/instants.ts";
import { Ticker, type TickerOptions } from "../../../src/cron/tick/ticker.ts";
import type { Store, StoreOptions } from "../../../src/store/store.ts";
import type { CronJobRow, OccurrenceRow } from "../../../src/store/schema/tables.ts";
import { definition, START_MS } from "../../harness/cron.ts";
import { openTestStore } from "../../harness/store.ts";

/** A process: its ticker, what it has in hand, and how that ends. */
export interface Process {
  readonly store: Store;
  readonly ticker: Ticker;
  readonly fired: Claimed[];
  /** Ends what is in hand, all of it or one, as a run would. */
  end(occurrenceId?: string): Promise<void>;
}

export interface Ticking {
  readonly clock: FakeClock;
  readonly store: Store;
  readonly logLines: string[];
  start(options?: ProcessOptions): Promise<Process>;
}

export interface ProcessOptions {
  readonly settings?: Partial<TickerOptions["settings"]>;
  /** Default: occurrences stay at work until {@link Process.end}. */
  readonly endsAtOnce?: boolean;
  readonly store?: Partial<StoreOptions>;
}

type Cleanup = Parameters<typeof openTestStore>[0];

export async function startTicking(t: Cleanup, nowMs: number = START_MS): Promise<Ticking> {
  const clock = new FakeClock(nowMs);
  const now = () => clock.now();
  const { store, openAnother } = await openTestStore(t, { now });
  const logLines: string[] = [];
  const log = createLog("info", (line) => void logLines.push(line));
  // The clock's timers keep no process alive, and neither does a database.
  const alive = setInterval(() => {}, 60_000);
  t.after(async () => clearInterval(alive));
  const start = async (options: ProcessOptions = {}): Promise<Process> => {
    const own = await openAnother({ now, ...options.store });
    const fired: Claimed[] = [];
    const runningCount = new Map<string, () => void>();
    const endRow = (id: string) =>
      own.write((tx) =>
        tx.update(
          "occurrences",
          { id },
          { status: "ok", ended_at: tx.nowMs, lease_owner: null, lease_until: null },
        ),
      );
    const ticker = new Ticker({
      store: own,
      clock,
      log,
      homes: new Map(),
      settings: {
        catchUpMissed: true,
        maxParallelJobs: 100,
        wrapResponse: true,
        silentMatch: "contains",
        ...options.settings,
      },
      fire: async (claimed) => {
        fired.push(claimed);
        const { id } = claimed.occurrence;
        if (options.endsAtOnce === true) return void (await endRow(id));
        await new Promise<void>((resolve) => runningCount.set(id, resolve));
      },
    });
    const end = async (only?: string) => {
      for (const id of only === undefined ? [...runningCount.keys()] : [only]) {
        const resolve = runningCount.get(id);
        if (!resolve) throw new Error(`${id} is not at work`);
        runningCount.delete(id);
        await endRow(id);
        resolve();
      }
    };
    t.after(async () => {
      for (const resolve of runningCount.values()) resolve();
      await ticker.stop();
    });
    return { store: own, ticker, fired, end };
  };
  return { clock, store, logLines, start };
}

let made = 0;

/** Makes a job: every hour in UTC, from the time of the store on, unless `parts` say otherwise. */
export async function makeJob(
  store: Store,
  parts: Partial<JobDefinition> = {},
  columns: Partial<CronJobRow> = {},
): Promise<string> {
  const row = await store.write(async (tx) => {
    const row = jobRow({ parts, nowMs: tx.nowMs }, columns);
    await tx.insert("cron_jobs", [row]);
    return row;
  });
  return row.id;
}

export function jobRow(
  { parts, nowMs }: { readonly parts: Partial<JobDefinition>; readonly nowMs: number },
  columns: Partial<CronJobRow> = {},
): CronJobRow {
  const whole = definition(parts);
  const next = "next_run_at" in columns ? null : (nextRunMs(whole.schedule, nowMs, whole.zone) ?? null);
  return cronJobRow({
    id: (made += 1).toString(16).padStart(12, "0"),
    name: whole.name,
    name_key: whole.name.toLowerCase(),
    definition: JSON.stringify(whole),
    due_at: columns.next_run_at ?? next,
    next_run_at: next,
    created_at: nowMs,
    ...columns,
  });
}

/** In the order of their instants. */
export async function occurrencesOf(store: Store, jobId?: string): Promise<readonly OccurrenceRow[]> {
  const all = store.read.selectFrom("occurrences").selectAll().orderBy("scheduled_at").orderBy("id");
  return (jobId === undefined ? all : all.where("job_id", "=", jobId)).execute();
}

export async function jobOf(store: Store, id: string): Promise<CronJobRow> {
  const row = await store.find("cron_jobs", { id });
  if (!row) throw new Error(`there is no job ${id}`);
  return row;
}
