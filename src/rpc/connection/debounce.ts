import type { GatewayEvents } from "../../../generated/gateway/host.gen.ts";
import type { Clock } from "../../base/clock.ts";

type Hint = GatewayEvents["sessions.changed"];

/** Longer than the burst in which many sessions begin or end at once, shorter than anybody waits for a list. */
const EVERY_MS = 100;

/** Events that only say "look again": the first goes at once, those that follow closely are one. */
export class Hints {
  readonly #clock: Clock;
  readonly #send: (hint: Hint) => void;
  #last: Hint | undefined;
  #cancel: (() => void) | undefined;

  constructor(clock: Clock, send: (hint: Hint) => void) {
    this.#clock = clock;
    this.#send = send;
  }

  event(hint: Hint): void {
    if (this.#cancel) this.#last = hint;
    else this.#now(hint);
  }

  close(): void {
    this.#cancel?.();
  }

  #now(hint: Hint): void {
    this.#send(hint);
    this.#cancel = this.#clock.after(EVERY_MS, () => {
      const last = this.#last;
      this.#last = undefined;
      this.#cancel = undefined;
      if (last) this.#now(last);
    });
  }
}
