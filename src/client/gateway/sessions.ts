import type { Cursor, LiveSession, SessionResumeParams } from "../../../generated/gateway/types/types.gen.ts";
import type { Fields, PendingCall } from "./calls.ts";
import type { GatewayClientEvent } from "./types.ts";

/** Events are missing between the last that came and `cursor`. */
export interface Gap {
  readonly reason: "truncated" | "epoch";
  readonly cursor: Cursor;
}

/** The sessions that this client hears of, and the last event of each. */
export class FollowedSessions extends Map<string, Cursor> {
  /** Those that are to be closed with the connection, also the next one. */
  readonly #brief = new Set<string>();

  /** Parameters of `session.resume` that go on where the session stopped. */
  resumption(id: string): SessionResumeParams {
    const close_on_disconnect = this.#brief.has(id);
    return { session_id: id, omit_messages: true, close_on_disconnect, cursor: this.get(id) as Cursor };
  }

  /** Whether the event is news: one that came before is none. */
  isNews(event: GatewayClientEvent): boolean {
    const { type, session_id: id = "", seq } = event as { type: string; session_id?: string; seq?: number };
    if (type === "session.closed") this.delete(id);
    const cursor = this.get(id);
    if (!cursor || !seq) return true;
    if (seq <= cursor.last_seen) return false;
    this.set(id, { ...cursor, last_seen: seq });
    return true;
  }

  /**
   * To be called before any frame that follows the answer is looked at. `epoch` is that of the connection. Returns what is
   * missing, where something is.
   */
  answered({ method, params }: PendingCall, result: Fields, epoch: string): Gap | undefined {
    const id = String(result["session_id"] ?? params["session_id"]);
    if (params["close_on_disconnect"]) this.#brief.add(id);
    if (/\.(create|branch)$/.test(method)) this.set(id, { epoch, last_seen: 0 });
    if (/\.(detach|close|delete)$/.test(method)) this.delete(id);
    if (!/\.(resume|activate)$/.test(method)) return undefined;
    const { latest_seq, truncated, epoch: now } = result as unknown as LiveSession;
    const asked = params["cursor"] as Cursor | undefined;
    const cursor = { epoch: now, last_seen: latest_seq };
    // Without a cursor, one who is attached already goes on where it is: some of its events may be on their way.
    this.set(id, truncated ? cursor : (asked ?? this.get(id) ?? cursor));
    return truncated ? { reason: asked?.epoch === now ? "truncated" : "epoch", cursor } : undefined;
  }
}
