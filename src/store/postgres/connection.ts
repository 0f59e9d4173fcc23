/** Connections to PostgreSQL: the pool, the writer's own one, and the one that listens for notifications. */
import postgres from "postgres";
import { isUnavailable, toStoreError, unavailable } from "../tx/group.ts";
import type { Row } from "../tx/tx.ts";

export type Sql = ReturnType<typeof connect>;

/** A parsed URL: the URL for postgres.js, and the schema that it names, if any. */
export interface Settings {
  readonly url: string;
  readonly schema: string | undefined;
}

const CONNECT_TIMEOUT_SECONDS = 10;
const MAX_BACKOFF_SECONDS = 1;

/** Reads `schema` or `search_path` from the URL's query. Parsed by hand: `URL` rejects several hosts. */
export function toSettings(text: string): Settings {
  const [base = "", query = ""] = text.split("?", 2);
  const parameters = new URLSearchParams(query);
  const named = parameters.get("schema");
  parameters.delete("schema");
  if (named) parameters.set("search_path", `"${named.replaceAll('"', '""')}"`);
  const path = parameters.get("search_path");
  const rest = parameters.toString();
  return { url: rest ? `${base}?${rest}` : base, schema: path === null ? undefined : firstName(path) };
}

/**
 * Settings of the writer, whose statements all look rows up by keys. Their plans are made once, often while the tables are
 * small: reading a whole table looks cheap then, and stays the plan when it has grown.
 */
const PLAN_BY_KEYS = ["seqscan", "hashjoin", "mergejoin", "material"]
  .map((name) => `set enable_${name} = off`)
  .concat("set jit = off")
  .join(";");

/** Creates a pool of postgres.js: bigint and numeric become numbers, notices are dropped. */
export function connect({ url }: Settings, { max, onclose }: { max: number; onclose?: () => void }) {
  return postgres(url, {
    max,
    ...(onclose && { onclose }),
    onnotice: () => {},
    // Skips the look-up of array types at each connect: no arrays are read.
    fetch_types: false,
    connect_timeout: CONNECT_TIMEOUT_SECONDS,
    backoff: (attempt: number) => Math.min(MAX_BACKOFF_SECONDS, 0.02 * 2 ** attempt),
    connection: { application_name: "agentd" },
    types: { number: { to: 20, from: [20, 1700], parse: Number, serialize: String } },
  });
}

/** The result of a statement. */
export interface Answer {
  readonly rows: readonly Row[];
  readonly changes: number;
}

/** Runs one prepared statement. Connection failures become `state_store_unavailable`. */
export async function execute(sql: Runner, text: string, values: readonly unknown[]): Promise<Answer> {
  try {
    const result = await sql.unsafe(text, values as never[], { prepare: true });
    return { rows: Array.from(result) as unknown as Row[], changes: result.count ?? 0 };
  } catch (error) {
    throw toStoreError(error);
  }
}

interface Runner {
  unsafe(
    text: string,
    values: never[],
    options: { prepare: boolean },
  ): PromiseLike<Iterable<unknown> & { readonly count: number | null }>;
}

/**
 * One reserved connection, never returned to a pool. After a loss, postgres.js would write the next statement to a
 * closed socket and throw from a timer, so `send` checks first. It may also leave statements written just before the
 * loss unanswered, so every pending statement fails with the connection here.
 */
export class PinnedConnection {
  readonly #pool: Sql;
  readonly #reserved: Runner;
  readonly #life: Life;

  private constructor(pool: Sql, reserved: Runner, life: Life) {
    this.#pool = pool;
    this.#reserved = reserved;
    this.#life = life;
  }

  static async open(settings: Settings): Promise<PinnedConnection> {
    const life = new Life();
    const pool = connect(settings, { max: 1, onclose: () => life.end() });
    try {
      // Connects, too: without the look-up of types, `reserve` on a closed connection never answers.
      await pool.unsafe(PLAN_BY_KEYS);
      const reserved = await pool.reserve();
      return new PinnedConnection(pool, reserved, life);
    } catch (error) {
      await pool.end({ timeout: 0 });
      throw toStoreError(error);
    }
  }

  get isUsable(): boolean {
    return !this.#life.isOver;
  }

  send(text: string, values: readonly unknown[]): Promise<Answer> {
    if (this.#life.isOver) return Promise.reject(lost());
    return new Promise((resolve, reject) => {
      const release = this.#life.enter(reject);
      execute(this.#reserved, text, values)
        .then(resolve, (error: unknown) => {
          reject(error);
          // The server announces the end in answer to a statement, before the socket closes.
          if (isUnavailable(error)) this.#life.end();
        })
        .finally(release);
    });
  }

  async drop(): Promise<void> {
    this.#life.end();
    await this.#pool.end({ timeout: 0 });
  }
}

/** Tracks whether a connection is open, and notifies pending statements when it is lost. */
class Life {
  readonly #waiting = new Set<(error: unknown) => void>();
  isOver = false;

  /** Calls `reject` when the connection is lost before the returned function was called. */
  enter(reject: (error: unknown) => void): () => void {
    this.#waiting.add(reject);
    return () => this.#waiting.delete(reject);
  }

  end(): void {
    this.isOver = true;
    for (const reject of this.#waiting) reject(lost());
    this.#waiting.clear();
  }
}

const lost = () => unavailable("The connection to PostgreSQL was lost.");

function firstName(searchPath: string): string | undefined {
  const [, quoted, plain] = /^\s*(?:"((?:[^"]|"")+)"|([^,\s]+))/.exec(searchPath) ?? [];
  return quoted?.replaceAll('""', '"') ?? plain?.toLowerCase();
}

/** PostgreSQL refuses payloads of 8000 bytes and more; above this, "anything may have changed" is sent. */
const MAX_PAYLOAD_BYTES = 7_500;
/** Not a valid scope. */
const ANYTHING = "*";

interface NotificationOptions {
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
