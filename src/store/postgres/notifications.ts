import type { Sql } from "./connection.ts";

/** PostgreSQL refuses payloads of 8000 bytes and more; above this, "anything may have changed" is sent. */
const MAX_PAYLOAD_BYTES = 7_500;
/** Not a valid scope. */
const ANYTHING = "*";

export interface NotificationOptions {
  /** Unique per database and schema: all schemas of a server share its channels. */
  readonly channel: string;
  /** Listens on a connection of its own. */
  readonly sql: Sql;
  /** Runs a statement, and retries on a dead connection. */
  readonly query: (sql: string, values: readonly unknown[]) => Promise<unknown>;
  readonly onProblem: (message: string, error: unknown) => void;
}

type Wake = (scopes: readonly string[] | undefined) => void;

/**
 * Wakes the other processes of a database, by LISTEN and NOTIFY. Notifications carry no data: the rows do. They are
 * sent after their transactions (NOTIFY inside one takes a lock that serialises all commits), one at a time: what is
 * announced meanwhile goes together into the next.
 */
export class Notifications {
  readonly #options: NotificationOptions;
  // Own notifications come back too; their followers have the events already.
  readonly #origin = crypto.randomUUID();
  readonly #wakes = new Set<Wake>();
  #announced = new Set<string>();
  #sending: Promise<void> | undefined;
  #isListening = false;
  #isClosed = false;

  constructor(options: NotificationOptions) {
    this.#options = options;
  }

  watch(wake: Wake): () => void {
    this.#wakes.add(wake);
    if (!this.#isListening) void this.#listen();
    return () => this.#wakes.delete(wake);
  }

  /** Undefined: anything may have changed. */
  announce(scopes: readonly string[] | undefined): void {
    if (this.#isClosed) return;
    for (const scope of scopes ?? [ANYTHING]) this.#announced.add(scope);
    this.#sending ??= this.#send();
  }

  /** Sends the announced scopes. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#wakes.clear();
    await this.#sending;
  }

  // postgres.js listens again by itself when the connection is lost. Notifications in between are lost, so every
  // follower looks each time it listens.
  async #listen(): Promise<void> {
    this.#isListening = true;
    const { sql, channel, onProblem } = this.#options;
    try {
      await sql.listen(
        channel,
        (payload) => this.#receive(payload),
        () => this.#wakeAll(undefined),
      );
    } catch (error) {
      if (!this.#isClosed) onProblem("PostgreSQL notifications are not connected; trying again.", error);
    }
  }

  #receive(payload: string): void {
    const [origin, ...scopes] = parseList(payload);
    if (origin !== this.#origin) this.#wakeAll(scopes.length > 0 ? scopes : undefined);
  }

  #wakeAll(scopes: readonly string[] | undefined): void {
    for (const wake of this.#wakes) wake(scopes);
  }

  async #send(): Promise<void> {
    const { query, channel, onProblem } = this.#options;
    while (this.#announced.size > 0) {
      const payload = this.#payload([...this.#announced]);
      this.#announced.clear();
      try {
        await query("select pg_notify($1, $2)", [channel, payload]);
      } catch (error) {
        // The server is gone: listeners have lost it too, and look when they listen again.
        onProblem("A PostgreSQL notification was not sent.", error);
      }
    }
    this.#sending = undefined;
  }

  #payload(scopes: readonly string[]): string {
    const full = JSON.stringify([this.#origin, ...scopes]);
    const isNamed = !scopes.includes(ANYTHING) && new TextEncoder().encode(full).length <= MAX_PAYLOAD_BYTES;
    return isNamed ? full : JSON.stringify([this.#origin]);
  }
}

/** Anyone on the server may send on the channel: an unknown payload means that anything may have changed. */
function parseList(payload: string): readonly string[] {
  try {
    const list: unknown = JSON.parse(payload);
    return Array.isArray(list) && list.every((item) => typeof item === "string") ? list : [];
  } catch {
    return [];
  }
}
