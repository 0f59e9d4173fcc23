/** Pieces of streamed text: what may be merged with its neighbour, and left out where a client does not read. Pure. */
import type { GatewayEvent, GatewayEvents } from "../../../generated/gateway/host.gen.ts";

export type Delta = GatewayEvents["message.delta" | "reasoning.delta" | "thinking.delta"];

export function isDelta(event: GatewayEvent): event is Delta {
  return (
    event.type === "message.delta" || event.type === "reasoning.delta" || event.type === "thinking.delta"
  );
}

/** Names the stream that a delta belongs to; begins with the session. */
export function streamOf({ session_id: session, type }: Delta): string {
  return `${session} ${type}`;
}

/** Tells that `count` deltas of the stream before this one were left out. */
export function withDropped<T extends Delta>(event: T, count: number): T {
  return { ...event, payload: { ...event.payload, dropped: count + (droppedOf(event) ?? 0) } };
}

/** Undefined when `next` does not continue `last`. A thinking line replaces the one before. */
export function merge(last: Delta, next: Delta): Delta | undefined {
  if (last.type !== next.type || last.session_id !== next.session_id || last.turn_id !== next.turn_id) {
    return undefined;
  }
  const firstSeq = last.first_seq ?? last.seq;
  const text = next.type === "thinking.delta" ? next.payload.text : last.payload.text + next.payload.text;
  const dropped = (droppedOf(last) ?? 0) + (droppedOf(next) ?? 0);
  const payload = { ...next.payload, text, ...(dropped > 0 ? { dropped } : {}) };
  return { ...next, ...(firstSeq === undefined ? {} : { first_seq: firstSeq }), payload };
}

function droppedOf({ payload }: Delta): number | undefined {
  return "dropped" in payload ? payload.dropped : undefined;
}
