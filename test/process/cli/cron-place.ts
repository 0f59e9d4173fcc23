/** The jobs of a home that `agentd cron` works on, in a database that this process keeps open, as a gateway would. */
import { occurrenceRow } from "../../unit/store/rows.ts";
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { Jobs } from "../../../src/cron/job/jobs.ts";
import type { Job } from "../../../src/cron/job/job.ts";
import { createId } from "../../../src/base/text.ts";
import type { Store } from "../../../src/store/store.ts";
import type { OccurrenceRow } from "../../../src/store/schema/tables.ts";
import { openTestStore } from "../../harness/store.ts";
import { createHome } from "../../unit/config/home-folder.ts";
import { agentd, type Outcome } from "../../harness/agentd.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";

const SECRET = "canary-of-the-cron-cli";

export interface CronContext {
  readonly store: Store;
  readonly jobs: Jobs;
  readonly home: string;
  readonly env: Readonly<Record<string, string>>;
  cron(...words: string[]): Promise<Outcome>;
  /** A process that looks for jobs, and did so `agoMs` ago. */
  beat(agoMs?: number): Promise<void>;
}

export async function openCronPlace(t: TestContext): Promise<CronContext> {
  const made = await createHome({ ".env": `TELEGRAM_BOT_TOKEN=${SECRET}\n` });
  t.after(() => made[Symbol.asyncDispose]());
  const { store, url } = await openTestStore(t);
  const env = { AGENTD_HOME: made.home, AGENTD_DATABASE_URL: url };
  return {
    store,
    jobs: new Jobs(store, { maxJobs: 100 }),
    home: made.home,
    env,
    cron: (...words) => keptAgentd(["cron", ...words], env),
    beat: async (agoMs = 0) => {
      const at = Date.now() - agoMs;
      const row = {
        owner: store.owner,
        started_at: at,
        ticked_at: at,
        succeeded_at: at,
        last_error: null,
        corrected_at: null,
        corrected_jobs: null,
      };
      await store.write((tx) => tx.insert("cron_tickers", [row]));
    },
  };
}

/** Of a job that was made. */
export function idIn({ stdout, stderr }: Outcome): string {
  return /^Created job: ([0-9a-f]{12})$/m.exec(stdout)?.[1] ?? assert.fail(stdout + stderr);
}

export function entryOf<T>({ stdout, stderr }: Outcome): T {
  return JSON.parse(stdout || assert.fail(stderr)) as T;
}

export async function addRun(
  store: Store,
  job: Job,
  columns: Partial<OccurrenceRow> = {},
): Promise<OccurrenceRow> {
  const row = occurrenceRow({
    id: createId("occ", columns.claimed_at ?? 1),
    owner: job.owner,
    job_id: job.id,
    job_name: job.definition.name,
    scheduled_at: columns.claimed_at ?? 1,
    ended_at: 2,
    delivery_status: null,
    ...columns,
  });
  await store.write((tx) => tx.insert("occurrences", [row]));
  return row;
}

/** `agentd cron` with `input` on its standard input. */
export function piped({ env }: CronContext, words: readonly string[], input: string): Promise<Outcome> {
  return agentd(["cron", ...words], env, input);
}
