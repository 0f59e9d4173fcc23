import type { Batches } from "../tx/batches.ts";
import { rawTx } from "../tx/tx.ts";
import type { Row } from "../tx/tx.ts";

/**
 * Deletes events earlier than their runs. Keeps events of stored responses, which are read from them, and events of
 * active runs that a recovery after a crash would need.
 */
export class EventSweeper {
  readonly #batches: Batches;
  readonly #sinceMs: number;

  /** An earlier sweep handled runs that ended before `sinceMs`. */
  constructor(batches: Batches, sinceMs: number) {
    this.#batches = batches;
    this.#sinceMs = sinceMs;
  }

  /** Deletes all events of runs that ended so long ago. */
  expired(ageMs: number): Promise<number> {
    return this.#ended(ageMs, ({ id = null }) => this.#batches.all(EVENTS_OF_RUN, [id]));
  }

  /** Deletes the oldest events of runs that have more than `max`. */
  async surplus(max: number): Promise<number> {
    const open = await this.#batches.write((tx) => rawTx(tx).all(LONG_OPEN_RUNS, [max]));
    let swept = 0;
    for (const run of open) {
      if (this.#batches.isStopped) return swept;
      swept += await this.#trimOpen(run, max);
    }
    const trim = async ({ id = null, last_seq: lastSeq }: Row) =>
      Number(lastSeq) > max ? this.#batches.all(EVENTS_TO, [id, Number(lastSeq) - max]) : 0;
    return swept + (await this.#ended(0, trim));
  }

  /** Recovery needs the events after the last usage event, and every steering event. */
  async #trimOpen({ id = null, last_seq: lastSeq }: Row, max: number): Promise<number> {
    const [saved] = await this.#batches.write((tx) => rawTx(tx).all(LAST_USAGE, [id]));
    const upTo = Math.min(Number(lastSeq) - max, Number(saved?.["run_seq"] ?? 0) - 1);
    return upTo > 0 ? this.#batches.all(EVENTS_TO_BUT_STEERS, [id, upTo]) : 0;
  }

  /** Visits the runs that ended at least `ageMs` ago, page by page. */
  async #ended(ageMs: number, work: (run: Row) => Promise<number>): Promise<number> {
    let swept = 0;
    let [endedAt, id] = [this.#sinceMs - ageMs, ""];
    for (;;) {
      const runs = await this.#batches.write((tx) =>
        rawTx(tx).all(ENDED_RUNS, [tx.nowMs - ageMs, endedAt, id, PAGE]),
      );
      for (const run of runs) {
        if (this.#batches.isStopped) return swept;
        swept += await work(run);
      }
      const last = runs.at(-1);
      if (!last || runs.length < PAGE) return swept;
      [endedAt, id] = [Number(last["ended_at"]), String(last["id"])];
    }
  }
}

const PAGE = 200;

const ENDED_RUNS = `
  select id, ended_at, last_seq from runs
  where ended_at is not null and ended_at <= ? and (ended_at, id) > (?, ?) and kind <> 'response'
  order by ended_at, id limit ?`;

const LONG_OPEN_RUNS = `
  select id, last_seq from runs
  where ended_at is null and last_seq > ? and kind not in ('response', 'chat')`;

const LAST_USAGE =
  "select run_seq from events where run_id = ? and type = 'usage.updated' order by run_seq desc limit 1";

const events = (which: string): string =>
  `delete from events where (session_id, seq) in (select session_id, seq from events where ${which} limit ?)`;
const EVENTS_OF_RUN = events("run_id = ?");
const EVENTS_TO = events("run_id = ? and run_seq <= ?");
const EVENTS_TO_BUT_STEERS = events(
  "run_id = ? and run_seq <= ? and type not in ('run.steer_accepted', 'run.steered')",
);
