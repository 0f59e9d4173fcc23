import type { Clock } from "../base/clock.ts";
import type { Log, LogFields } from "../base/log.ts";

const WINDOW_MS = 60_000;
/** Strangers must not be able to fill the disk with lines. */
const MAX_LINES = 60;

/** Tells the log of refused requests: of a flood the first of each minute, and how many there were besides. */
export class RefusalLog {
  readonly #log: Log;
  readonly #clock: Pick<Clock, "now">;
  #startMs = Number.NEGATIVE_INFINITY;
  #lines = 0;

  constructor(log: Log, clock: Pick<Clock, "now">) {
    this.#log = log;
    this.#clock = clock;
  }

  tell(fields: LogFields): void {
    const nowMs = this.#clock.now();
    if (nowMs < this.#startMs || nowMs >= this.#startMs + WINDOW_MS) {
      if (this.#lines > MAX_LINES)
        this.#log.info("more webhooks were refused", { count: this.#lines - MAX_LINES });
      this.#startMs = nowMs;
      this.#lines = 0;
    }
    if (++this.#lines <= MAX_LINES) this.#log.info("a webhook was refused", fields);
  }
}
