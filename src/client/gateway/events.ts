import type { Cursor, LiveSession, SessionResumeParams } from "../../../generated/gateway/types/types.gen.ts";
import { EventsLostError, type GatewayClientEvent } from "./types.ts";
import type { Fields, PendingCall } from "./calls.ts";

/** A bounded, ordered queue of events for one reader; waiting deltas of one stream are merged. */
export interface EventQueue {
  readonly events: AsyncGenerator<GatewayClientEvent, void>;
  /** `size` is the length of the event's frame. */
  push(event: GatewayClientEvent, size: number, epoch: string): void;
  /** Ends the queue. Waiting events can still be read; then `error`, if given, is thrown. */
  end(error?: Error): void;
}

interface Waiting {
  event: GatewayClientEvent;
  size: number;
  readonly epoch: string;
}

interface Delta {
  readonly type: string;
  readonly session_id?: string;
  readonly turn_id?: string;
  readonly seq?: number;
  readonly first_seq?: number;
  readonly payload: { readonly text: string; readonly dropped?: number };
}

const MAX_EVENTS = 8_192;
const MAX_SIZE = 16 * 1_048_576;

/** Creates a queue. `onEnd` is called once, when it has ended. */
export function createEventQueue(onEnd: () => void): EventQueue {
  const cursors = new Map<string, Cursor>();
  let waiting: Waiting[] = [];
  let size = 0;
  let ended: { readonly error: Error | undefined } | undefined;
  let wake = () => {};
  const end = (error?: Error) => {
    if (ended) return;
    ended = { error };
    onEnd();
    wake();
  };
  async function* read() {
    try {
      for (;;) {
        const next = waiting.shift();
        if (next) {
          const { session_id: id, seq } = next.event as { session_id?: string; seq?: number };
          if (id && seq) cursors.set(id, { epoch: next.epoch, last_seen: seq });
          size -= next.size;
          yield next.event;
        } else if (ended) {
          if (ended.error) throw ended.error;
          return;
        } else {
          await new Promise<void>((resolve) => (wake = resolve));
        }
      }
    } finally {
      end();
    }
  }
  return {
    events: read(),
    end,
    push(event, length, epoch) {
      if (ended) return;
      const last = waiting.at(-1);
      const merged = last && merge(last.event, event);
      if (merged) {
        last.event = merged;
        last.size += length;
      } else {
        waiting.push({ event, size: length, epoch });
      }
      size += length;
      if (waiting.length > MAX_EVENTS || size > MAX_SIZE) {
        waiting = [];
        end(new EventsLostError(cursors));
      }
      wake();
    },
  };
}

/** Merges two deltas like the gateway. Returns undefined when `next` does not continue `last`. */
function merge(last: GatewayClientEvent, next: GatewayClientEvent): GatewayClientEvent | undefined {
  if (last.type !== next.type || !/^(mess|reason|think)\w+\.delta$/.test(next.type)) return undefined;
  const [a, b] = [last as Delta, next as Delta];
  if (a.session_id !== b.session_id || a.turn_id !== b.turn_id) return undefined;
  // A thinking line replaces the previous one.
  const text = b.type[0] === "t" ? b.payload.text : a.payload.text + b.payload.text;
  const dropped = (a.payload.dropped ?? 0) + (b.payload.dropped ?? 0);
  const payload = { ...b.payload, text, ...(dropped && { dropped }) };
  return { ...b, first_seq: a.first_seq ?? a.seq, payload } as GatewayClientEvent;
}

/** Events are missing between the last received one and `cursor`. */
interface Gap {
  readonly reason: "truncated" | "epoch";
  readonly cursor: Cursor;
}

/** The sessions that this client is attached to, with the last event of each. */
export class FollowedSessions extends Map<string, Cursor> {
  /** Sessions that close with the connection, and with the next one. */
  readonly #brief = new Set<string>();

  /** Returns the parameters of `session.resume` that continue where the session stopped. */
  resumption(id: string): SessionResumeParams {
    const close_on_disconnect = this.#brief.has(id);
    return { session_id: id, omit_messages: true, close_on_disconnect, cursor: this.get(id) as Cursor };
  }

  /** Returns whether the event is new, and stores its number. */
  isNew(event: GatewayClientEvent): boolean {
    const { type, session_id: id = "", seq } = event as { type: string; session_id?: string; seq?: number };
    if (type === "session.closed") this.delete(id);
    const cursor = this.get(id);
    if (!cursor || !seq) return true;
    if (seq <= cursor.last_seen) return false;
    this.set(id, { ...cursor, last_seen: seq });
    return true;
  }

  /**
   * Updates the sessions after a response; call it before reading the next frame. `epoch` is that of the connection.
   * Returns the gap when events are missing.
   */
  answered({ method, params }: PendingCall, result: Fields, epoch: string): Gap | undefined {
    const id = String(result["session_id"] ?? params["session_id"]);
    if (params["close_on_disconnect"]) this.#brief.add(id);
    if (/\.(create|branch)$/.test(method)) this.set(id, { epoch, last_seen: 0 });
    if (/\.(detach|close|delete)$/.test(method)) this.delete(id);
    if (!/\.(resume|activate)$/.test(method)) return undefined;
    const { latest_seq, truncated, epoch: now } = result as unknown as LiveSession;
    const requested = params["cursor"] as Cursor | undefined;
    const cursor = { epoch: now, last_seen: latest_seq };
    // Without a cursor, an attached session continues where it is: some of its events may still arrive.
    this.set(id, truncated ? cursor : (requested ?? this.get(id) ?? cursor));
    return truncated ? { reason: requested?.epoch === now ? "truncated" : "epoch", cursor } : undefined;
  }
}
