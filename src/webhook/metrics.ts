import type { WebhookAnswer } from "./receive/answer.ts";

/** What the receiver counts. */
export interface WebhookMetrics {
  /** A request to a route was answered, after so many seconds. */
  answered(outcome: string, seconds: number): void;
}

/**
 * What a request came to, in one word of a fixed set: the status of a good answer, the code of a refusal. Names of
 * routes are no part of it: whoever guesses at them must not make new series.
 */
export function outcomeOf({ body }: WebhookAnswer): string {
  return "code" in body ? body.code : body.status;
}
