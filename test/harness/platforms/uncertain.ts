/** What the outbox knows of doubts, for targets that are asked without one. */
import type { Clock } from "../../../src/base/time.ts";
import type { Delivery, SendOptions, SendOutcome, Target } from "../../../src/deliver/target.ts";

/** Sends one message again and again: after one that stays unknown a person has had it sent again. */
export function doubting(
  target: Target,
  clock: Clock,
): (delivery: Delivery, options: SendOptions) => Promise<SendOutcome> {
  let uncertainSinceMs: number | undefined;
  return async (delivery, options) => {
    const beganMs = clock.now();
    try {
      const outcome = await target.send(
        { ...delivery, ...(uncertainSinceMs === undefined ? {} : { uncertainSinceMs }) },
        options,
      );
      if (outcome.status === "unknown")
        uncertainSinceMs = outcome.isFinal ? undefined : (uncertainSinceMs ?? beganMs);
      return outcome;
    } catch (error) {
      uncertainSinceMs ??= beganMs;
      throw error;
    }
  };
}
