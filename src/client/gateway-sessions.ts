import type { GatewayMethod } from "../../generated/gateway/rpc.gen.ts";
import type { Cursor, LiveSession, SessionResumeParams } from "../../generated/gateway/types/types.gen.ts";
import type { GatewayClientEvent } from "./gateway-types.ts";

/** How the host attached, which holds for the next connection too. */
type Manner = Pick<SessionResumeParams, "cols" | "close_on_disconnect">;

interface Followed {
  cursor: Cursor;
  readonly manner: Manner;
}

/** Events are missing between the last that came and `cursor`. */
export interface Gap {
  readonly reason: "truncated" | "epoch";
  readonly cursor: Cursor;
}

/** What calls were asked with and answered, as far as sessions go. */
export interface SessionAnswer {
  readonly method: GatewayMethod;
  readonly params: Readonly<Record<string, unknown>>;
  readonly result: Readonly<Record<string, unknown>>;
  /** Of the connection. */
  readonly epoch: string;
}

/** The sessions that this client hears of, and the last event of each. */
export class FollowedSessions {
  readonly #followed = new Map<string, Followed>();

  get ids(): readonly string[] {
    return [...this.#followed.keys()];
  }

  cursor(id: string): Cursor | undefined {
    return this.#followed.get(id)?.cursor;
  }

  forget(id: string): void {
    this.#followed.delete(id);
  }

  /** Parameters of `session.resume` that go on where the session stopped. */
  resumption(id: string): SessionResumeParams {
    const { cursor, manner = {} } = this.#followed.get(id) ?? {};
    return { ...manner, session_id: id, omit_messages: true, ...(cursor ? { cursor } : {}) };
  }

  /** Whether the event is news: one that came before is none. */
  isNews(event: GatewayClientEvent): boolean {
    const { type, session_id: id } = event;
    if (type === "session.closed" && id) this.forget(id);
    if (!id || !("seq" in event) || event.seq === undefined) return true;
    const followed = this.#followed.get(id);
    if (!followed) return true;
    if (event.seq <= followed.cursor.last_seen) return false;
    followed.cursor = { ...followed.cursor, last_seen: event.seq };
    return true;
  }

  /** To be called before any frame that follows the answer is looked at. Returns what is missing, where something is. */
  answered(answer: SessionAnswer): Gap | undefined {
    const { method, params, result, epoch } = answer;
    const id = String(result["session_id"] ?? params["session_id"]);
    switch (method) {
      case "session.create":
      case "session.branch":
        this.#follow(id, { epoch, last_seen: 0 }, params);
        break;
      case "session.resume":
      case "session.activate":
        return this.#attached(id, params, result as unknown as LiveSession);
      case "session.detach":
      case "session.close":
      case "session.delete":
        this.forget(id);
    }
    return undefined;
  }

  #attached(id: string, params: SessionAnswer["params"], result: LiveSession): Gap | undefined {
    const cursor = { epoch: result.epoch, last_seen: result.latest_seq };
    const asked = params["cursor"] as Cursor | undefined;
    // Without a cursor, one who is attached already goes on where it is: some of its events may be on their way.
    this.#follow(id, result.truncated ? cursor : (asked ?? this.cursor(id) ?? cursor), params);
    if (!result.truncated) return undefined;
    return { reason: asked?.epoch === result.epoch ? "truncated" : "epoch", cursor };
  }

  #follow(id: string, cursor: Cursor, { cols, close_on_disconnect }: Manner): void {
    const known = this.#followed.get(id)?.manner;
    const manner = {
      ...known,
      ...(cols === undefined ? {} : { cols }),
      ...(close_on_disconnect === undefined ? {} : { close_on_disconnect }),
    };
    this.#followed.set(id, { cursor, manner });
  }
}
