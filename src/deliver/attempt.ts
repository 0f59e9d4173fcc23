import type { Clock } from "../base/clock.ts";
import type { Delivery, SendOutcome, Target } from "./target.ts";

/** lost: somebody else may be sending it by now. stopped: the service ends. */
export type Cut = "lost" | "stopped";
export type AttemptEnd = SendOutcome | { readonly status: Cut };

/** One message on its way. It ends by itself, in time, or when it is cut, whatever the target does. */
export class Attempt {
  readonly #abort = new AbortController();
  readonly #end = Promise.withResolvers<AttemptEnd>();

  /** Never rejects. */
  async run(
    target: Target,
    delivery: Delivery,
    { clock, timeoutMs }: { readonly clock: Clock; readonly timeoutMs: number },
  ): Promise<AttemptEnd> {
    const tooLong = { status: "retry", error: `There was no outcome within ${timeoutMs / 1000} s.` } as const;
    const cancel = clock.after(timeoutMs, () => this.#finish(tooLong));
    void send(target, delivery, this.#abort.signal).then((outcome) => this.#end.resolve(outcome));
    const end = await this.#end.promise;
    cancel();
    return end;
  }

  cut(why: Cut): void {
    this.#finish({ status: why });
  }

  #finish(end: AttemptEnd): void {
    this.#end.resolve(end);
    this.#abort.abort(new Error("The attempt is over."));
  }
}

async function send(target: Target, delivery: Delivery, signal: AbortSignal): Promise<SendOutcome> {
  try {
    return await target.send(delivery, { signal });
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    return { status: "retry", error: `The attempt failed: ${detail}` };
  }
}
