/** What the model of the benches `chat-provider` and `chat-memory` says: fifty deltas, which make this text. */
export const DELTAS = 50;

export function toDeltas(): readonly string[] {
  return Array.from({ length: DELTAS }, (_, i) => `word ${i} `);
}
