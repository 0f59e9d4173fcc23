/** Messages that may have arrived, on platforms that tell repeats for a while only. */
import type { Clock } from "../base/clock.ts";
import type { Delivery, SendOptions, SendOutcome } from "./target.ts";

export interface DoubtsOptions {
  /** The platform as people write it. */
  readonly title: string;
  readonly clock: Clock;
  /** How long the platform tells repeats, milliseconds; rather too short than too long. */
  readonly windowMs: number;
}

/**
 * Makes one request of a message, unless an earlier one may have arrived so long ago that this one could make a second
 * message: then it stays unknown, for people to look. What another process sent is not known here.
 */
export type SendOnce = (
  delivery: Delivery,
  options: SendOptions,
  send: () => Promise<SendOutcome>,
) => Promise<SendOutcome>;

const MAX_DOUBTS = 1000;

export function createDoubts({ title, clock, windowMs }: DoubtsOptions): SendOnce {
  /** By message: when the request began of which nobody knows whether it arrived. */
  const doubts = new Map<string, number>();
  const note = (id: string, beganMs: number) => {
    if (doubts.has(id)) return;
    doubts.set(id, beganMs);
    const [oldest] = doubts.keys();
    if (doubts.size > MAX_DOUBTS && oldest !== undefined) doubts.delete(oldest);
  };
  return async ({ id }, { signal }, send) => {
    const beganMs = clock.now();
    const doubtMs = doubts.get(id);
    if (doubtMs !== undefined && beganMs - doubtMs > windowMs) {
      doubts.delete(id);
      return { status: "unknown", isFinal: true, error: tooLate(title) };
    }
    try {
      const outcome = await send();
      if (outcome.status === "unknown" && !outcome.isFinal) note(id, beganMs);
      else if (outcome.status !== "retry") doubts.delete(id);
      return outcome;
    } catch (error) {
      if (signal.aborted) note(id, beganMs);
      throw error;
    }
  };
}

function tooLate(title: string): string {
  return `It may have arrived: an earlier attempt had no answer, and by now ${title} would take a repeat for a new message. Look there; \`agentd deliveries retry\` sends it again.`;
}
