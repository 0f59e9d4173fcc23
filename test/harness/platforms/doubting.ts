/** What the outbox knows of doubts, for targets that are asked without one. */
import type { Clock } from "../../../src/base/clock.ts";
import type { Delivery, SendOptions, SendOutcome, Target } from "../../../src/deliver/target.ts";

/** Sends one message again and again: after one that stays unknown a person has had it sent again. */
export function doubting(
  target: Target,
  clock: Clock,
): (delivery: Delivery, options: SendOptions) => Promise<SendOutcome> {
  let doubtSinceMs: number | undefined;
  return async (delivery, options) => {
    const beganMs = clock.now();
    try {
      const outcome = await target.send(
        { ...delivery, ...(doubtSinceMs === undefined ? {} : { doubtSinceMs }) },
        options,
      );
      if (outcome.status === "unknown")
        doubtSinceMs = outcome.isFinal ? undefined : (doubtSinceMs ?? beganMs);
      return outcome;
    } catch (error) {
      doubtSinceMs ??= beganMs;
      throw error;
    }
  };
}
