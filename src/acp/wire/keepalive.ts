/** Sends an update during silent turns, so that clients see they are alive. */
import type { AnyMessage, SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import { isRecord } from "../../base/data.ts";
import type { Clock } from "../../base/time.ts";
import type { AcpConnection } from "./connection.ts";

interface LastUpdate {
  atMs: number;
  /** The last `usage_update`. */
  usage: SessionUpdate | undefined;
}

interface KeepaliveOptions {
  readonly connection: Pick<AcpConnection, "client" | "sessions">;
  readonly clock: Clock;
  /** The longest silence within a turn. */
  readonly everyMs: number;
}

/**
 * Repeats the last usage update, which clients accept as it is; an empty text chunk would become a message. Before the
 * first one, sends the session's time of update.
 */
export class Keepalive {
  readonly #options: KeepaliveOptions;
  readonly #lastUpdate = new Map<string, LastUpdate>();
  #cancel = () => {};

  constructor(options: KeepaliveOptions) {
    this.#options = options;
    this.#wait();
  }

  /** Records a message to the client. */
  sent(message: AnyMessage): void {
    if (!("method" in message) || !isRecord(message.params)) return;
    const { sessionId, update } = message.params;
    if (typeof sessionId !== "string") return;
    const lastUpdate = this.#lastUpdate.get(sessionId) ?? { atMs: 0, usage: undefined };
    lastUpdate.atMs = this.#options.clock.now();
    if (isRecord(update) && update["sessionUpdate"] === "usage_update")
      lastUpdate.usage = update as SessionUpdate;
    this.#lastUpdate.set(sessionId, lastUpdate);
  }

  stop(): void {
    this.#cancel();
  }

  #wait(): void {
    const { clock, everyMs } = this.#options;
    this.#cancel = clock.after(Math.ceil(everyMs / 4), () => {
      this.#check();
      this.#wait();
    });
  }

  #check(): void {
    const { connection, clock, everyMs } = this.#options;
    const busy = new Set(connection.sessions.filter(({ turns }) => turns.size > 0).map(({ id }) => id));
    const now = clock.now();
    for (const [id, lastUpdate] of this.#lastUpdate) {
      // The silence of a turn starts with it; the last usage stays for the next turn.
      if (!busy.has(id)) lastUpdate.atMs = now;
      if (!connection.sessions.some((session) => session.id === id)) this.#lastUpdate.delete(id);
    }
    for (const id of busy) {
      const lastUpdate = this.#lastUpdate.get(id) ?? { atMs: now, usage: undefined };
      this.#lastUpdate.set(id, lastUpdate);
      if (now - lastUpdate.atMs < everyMs) continue;
      lastUpdate.atMs = now;
      const update: SessionUpdate = lastUpdate.usage ?? {
        sessionUpdate: "session_info_update",
        updatedAt: new Date(now).toISOString(),
      };
      connection.client.notify("session/update", { sessionId: id, update }).catch(() => {});
    }
  }
}
