/** Deletes old records of the scheduler. */
import { firstIdAt } from "../../base/ids.ts";
import type { Batches } from "../tx/batches.ts";
import { rawTx } from "../tx/tx.ts";

export interface CronRetention {
  /** Ended occurrences; the newest of each job is kept. */
  readonly occurrencesMs?: number;
  /**
   * Number of the newest occurrences that are kept, at least one; open ones, and the newest of each job, stay in
   * addition.
   */
  readonly maxOccurrences?: number;
  /** Finished jobs, from their last change on. */
  readonly overJobsMs?: number;
}

/** Deletes in small transactions. */
export class CronSweeper {
  readonly #batches: Batches;

  constructor(batches: Batches) {
    this.#batches = batches;
  }

  /** Resolves to the number of deleted rows. Ids sort by the time of the claim, so the key alone finds the old ones. */
  async occurrences({ occurrencesMs, maxOccurrences }: CronRetention): Promise<number> {
    const before = await this.#batches.write(async (tx) => {
      const byAge =
        occurrencesMs === undefined ? "" : firstIdAt("occ", Math.max(0, tx.nowMs - occurrencesMs));
      if (maxOccurrences === undefined) return byAge;
      const [oldestKept] = await rawTx(tx).all(NTH_NEWEST_OCCURRENCE, [Math.max(1, maxOccurrences) - 1]);
      const byCount = String(oldestKept?.["id"] ?? "");
      return byCount > byAge ? byCount : byAge;
    });
    return before === "" ? 0 : this.#batches.all(DELETE_OCCURRENCES, [before]);
  }

  /** Resolves to the ids of the deleted jobs: the caller removes their output files. */
  async overJobs(ageMs: number): Promise<readonly string[]> {
    const gone: string[] = [];
    for (;;) {
      const rows = await this.#batches.write((tx) =>
        rawTx(tx).all(DELETE_OVER_JOBS, [tx.nowMs - ageMs, this.#batches.size]),
      );
      gone.push(...rows.map(({ id }) => String(id)));
      if (rows.length < this.#batches.size || this.#batches.isStopped) return gone;
    }
  }

  /** Deletes processes without a tick for a day; the last one stays, as the record of the last tick. */
  tickers(): Promise<number> {
    return this.#batches.all(DELETE_TICKERS, (tx) => [tx.nowMs - TICKER_MS]);
  }
}

const TICKER_MS = 86_400_000;

const NTH_NEWEST_OCCURRENCE = "select id from occurrences order by id desc limit 1 offset ?";
const DELETE_OCCURRENCES =
  "delete from occurrences where id in (select id from occurrences as old " +
  "where id < ? and ended_at is not null and (" +
  "exists (select 1 from occurrences as newer where newer.job_id = old.job_id and newer.id > old.id) " +
  "or not exists (select 1 from cron_jobs where cron_jobs.id = old.job_id)) order by id limit ?)";
const DELETE_OVER_JOBS =
  "delete from cron_jobs where id in (select id from cron_jobs as done " +
  "where state in ('completed', 'missed') and due_at is null and updated_at <= ? and not exists " +
  "(select 1 from occurrences where occurrences.job_id = done.id and ended_at is null) limit ?) " +
  "and state in ('completed', 'missed') and due_at is null returning id";
const DELETE_TICKERS =
  "delete from cron_tickers where owner in (select owner from cron_tickers as silent where ticked_at <= ? and exists " +
  "(select 1 from cron_tickers as newer where newer.ticked_at > silent.ticked_at) limit ?)";
