/** Tells a client now and then that a turn which is silent still works. */
import type { AnyMessage, SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import { isRecord } from "../../base/json/schema.ts";
import type { Clock } from "../../base/clock.ts";
import type { AcpConnection } from "./connection.ts";

interface Told {
  atMs: number;
  /** The last `usage_update`. */
  usage: SessionUpdate | undefined;
}

export interface KeepaliveOptions {
  readonly connection: Pick<AcpConnection, "client" | "sessions">;
  readonly clock: Clock;
  /** How long a turn may be silent. */
  readonly everyMs: number;
}

/**
 * Repeats the usage that was told last: clients take it for what it is, where an empty piece of text would become a
 * message. Before there is any, the session's own time.
 */
export class Keepalive {
  readonly #options: KeepaliveOptions;
  readonly #told = new Map<string, Told>();
  #cancel = () => {};

  constructor(options: KeepaliveOptions) {
    this.#options = options;
    this.#wait();
  }

  /** A message that the client gets. */
  sent(message: AnyMessage): void {
    if (!("method" in message) || !isRecord(message.params)) return;
    const { sessionId, update } = message.params;
    if (typeof sessionId !== "string") return;
    const told = this.#told.get(sessionId) ?? { atMs: 0, usage: undefined };
    told.atMs = this.#options.clock.now();
    if (isRecord(update) && update["sessionUpdate"] === "usage_update") told.usage = update as SessionUpdate;
    this.#told.set(sessionId, told);
  }

  stop(): void {
    this.#cancel();
  }

  #wait(): void {
    const { clock, everyMs } = this.#options;
    this.#cancel = clock.after(Math.ceil(everyMs / 4), () => {
      this.#look();
      this.#wait();
    });
  }

  #look(): void {
    const { connection, clock, everyMs } = this.#options;
    const busy = new Set(connection.sessions.filter(({ turns }) => turns.size > 0).map(({ id }) => id));
    const now = clock.now();
    for (const [id, told] of this.#told) {
      // The silence of a turn begins with it; what was told last holds for the next turn too.
      if (!busy.has(id)) told.atMs = now;
      if (!connection.sessions.some((session) => session.id === id)) this.#told.delete(id);
    }
    for (const id of busy) {
      const told = this.#told.get(id) ?? { atMs: now, usage: undefined };
      this.#told.set(id, told);
      if (now - told.atMs < everyMs) continue;
      told.atMs = now;
      const update: SessionUpdate = told.usage ?? {
        sessionUpdate: "session_info_update",
        updatedAt: new Date(now).toISOString(),
      };
      connection.client.notify("session/update", { sessionId: id, update }).catch(() => {});
    }
  }
}
