/** Messages that may have arrived, on platforms that tell repeats for a while only. Pure. */
import type { Delivery, SendOutcome } from "../target.ts";

export interface RepeatRules {
  /** The platform as people write it. */
  readonly title: string;
  /** How long the platform tells repeats, milliseconds; rather too short than too long. 0: it never does. */
  readonly windowMs: number;
}

/**
 * What becomes of a part of which an earlier attempt may have arrived so long ago that this one could make a second message:
 * it stays unknown, for people to look. Undefined: it may be sent.
 */
export function staleUncertainty(
  { title, windowMs }: RepeatRules,
  { uncertainSinceMs, partsSent }: Pick<Delivery, "uncertainSinceMs" | "partsSent">,
  { index, nowMs }: { readonly index: number; readonly nowMs: number },
): SendOutcome | undefined {
  // Parts behind the first were not begun before.
  if (uncertainSinceMs === undefined || index !== partsSent) return undefined;
  const isTold = windowMs > 0 && nowMs - uncertainSinceMs <= windowMs;
  return isTold ? undefined : { status: "unknown", isFinal: true, error: tooLate(title) };
}

function tooLate(title: string): string {
  return `It may have arrived: an earlier attempt had no answer, and by now ${title} would take a repeat for a new message. Look there; \`agentd deliveries retry\` sends it again.`;
}
