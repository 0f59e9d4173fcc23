import { sql } from "kysely";
import type { CreateTableBuilder, Kysely, RawBuilder } from "kysely";
import type { Migration } from "kysely/migration";
import type { Tables } from "./tables.ts";
import type { Dialect } from "./tx.ts";

/**
 * Numbered steps from nothing to the tables of tables.ts. A released step is never edited: a change is a new step.
 * Names sort in the order of their numbers.
 */
export function migrations(dialect: Dialect): Readonly<Record<string, Migration>> {
  return { "0001_init": { up: (db: Kysely<unknown>) => new Init(db as Kysely<Tables>, dialect).up() } };
}

interface Index {
  readonly columns: readonly string[];
  /** Makes it partial. */
  readonly where?: RawBuilder<boolean>;
  readonly isUnique?: boolean;
}

type Kind = "text" | "integer";

/** `name: kind` in the order of the columns; a trailing `?` allows null. */
type Shape = Readonly<Record<string, Kind | `${Kind}?`>>;

class Init {
  readonly #db: Kysely<Tables>;
  readonly #isSqlite: boolean;

  constructor(db: Kysely<Tables>, dialect: Dialect) {
    this.#db = db;
    this.#isSqlite = dialect === "sqlite";
  }

  async up(): Promise<void> {
    await this.#facts();
    await this.#conversations();
    await this.#journal();
    await this.#asks();
    await this.#ledger();
    await this.#leased("outbox", { target: "text", payload: "text", ref: "text?" }, "due");
    await this.#leased("jobs", { kind: "text", ref: "text", payload: "text" }, "queued");
  }

  async #facts(): Promise<void> {
    await this.#table("facts", { key: "text", value: "text" }, ["key"]);
    const random = this.#isSqlite
      ? sql`lower(hex(randomblob(8)))`
      : sql`replace(gen_random_uuid()::text, '-', '')`;
    await sql`insert into facts (key, value) values ('epoch', ${random})`.execute(this.#db);
  }

  async #conversations(): Promise<void> {
    const session: Shape = {
      id: "text",
      owner: "text",
      session_key: "text?",
      source: "text",
      title: "text?",
      model: "text?",
      cwd: "text?",
      meta: "text",
      transient: "integer",
      last_seq: "integer",
      last_message: "integer",
      queued: "integer",
      lease_owner: "text?",
      lease_until: "integer",
      created_at: "integer",
      updated_at: "integer",
    };
    const run: Shape = {
      id: "text",
      session_id: "text",
      owner: "text",
      kind: "text",
      parent_id: "text?",
      status: "text",
      model: "text",
      input: "text",
      output: "text?",
      usage: "text?",
      error: "text?",
      metadata: "text",
      last_seq: "integer",
      last_event: "text?",
      stop_requested: "integer",
      created_at: "integer",
      started_at: "integer?",
      updated_at: "integer",
      ended_at: "integer?",
    };
    await this.#table("sessions", session, ["id"]);
    await this.#index("sessions", "by_key", {
      columns: ["owner", "session_key"],
      where: sql<boolean>`session_key is not null`,
    });
    await this.#index("sessions", "by_update", {
      columns: ["updated_at"],
      where: sql<boolean>`transient = 0`,
    });
    await this.#index("sessions", "leased", {
      columns: ["lease_owner", "lease_until"],
      where: sql<boolean>`lease_owner is not null`,
    });
    await this.#table("runs", run, ["id"]);
    await this.#index("runs", "by_session", { columns: ["session_id", "created_at"] });
    await this.#index("runs", "by_parent", {
      columns: ["parent_id"],
      where: sql<boolean>`parent_id is not null`,
    });
    await this.#index("runs", "ended", { columns: ["ended_at"], where: sql<boolean>`ended_at is not null` });
  }

  async #journal(): Promise<void> {
    const message: Shape = {
      session_id: "text",
      seq: "integer",
      run_id: "text?",
      role: "text",
      content: "text",
      created_at: "integer",
    };
    const event: Shape = {
      session_id: "text",
      seq: "integer",
      run_id: "text?",
      run_seq: "integer?",
      type: "text",
      data: "text",
      created_at: "integer",
    };
    await this.#table("messages", message, ["session_id", "seq"]);
    await this.#table("events", event, ["session_id", "seq"]);
    await this.#index("events", "by_run", {
      columns: ["run_id", "run_seq"],
      where: sql<boolean>`run_id is not null`,
      isUnique: true,
    });
  }

  async #asks(): Promise<void> {
    const ask: Shape = {
      id: "text",
      session_id: "text",
      run_id: "text",
      owner: "text",
      kind: "text",
      status: "text",
      question: "text",
      answer: "text?",
      answered_by: "text?",
      created_at: "integer",
      expires_at: "integer?",
      answered_at: "integer?",
    };
    await this.#table("asks", ask, ["id"]);
    await this.#index("asks", "open", {
      columns: ["session_id", "created_at"],
      where: sql<boolean>`status = 'open'`,
    });
    await this.#index("asks", "by_run", { columns: ["run_id"] });
  }

  async #ledger(): Promise<void> {
    const claim: Shape = {
      scope: "text",
      key: "text",
      fingerprint: "text",
      status: "text",
      owner: "text",
      result: "text?",
      created_at: "integer",
      expires_at: "integer",
    };
    await this.#table("ledger", claim, ["scope", "key"]);
    await this.#index("ledger", "by_expiry", { columns: ["expires_at"] });
  }

  async #leased(table: "outbox" | "jobs", own: Shape, ready: string): Promise<void> {
    const leased: Shape = {
      id: "text",
      ...own,
      status: "text",
      attempts: "integer",
      max_attempts: "integer",
      available_at: "integer",
      lease_owner: "text?",
      last_error: "text?",
      created_at: "integer",
      done_at: "integer?",
    };
    await this.#table(table, leased, ["id"]);
    await this.#index(table, "ready", {
      columns: ["available_at"],
      where: sql<boolean>`status in (${sql.lit(ready)}, 'leased')`,
    });
    await this.#index(table, "done", { columns: ["done_at"], where: sql<boolean>`done_at is not null` });
  }

  async #table(table: keyof Tables, shape: Shape, key: readonly string[]): Promise<void> {
    let builder: CreateTableBuilder<string, string> = this.#db.schema.createTable(table);
    for (const [name, kind] of Object.entries(shape)) {
      const isNullable = kind.endsWith("?");
      const type = this.#type(kind.startsWith("text") ? "text" : "integer");
      builder = builder.addColumn(name, type, (column) => (isNullable ? column : column.notNull()));
    }
    builder = builder.addPrimaryKeyConstraint(`${table}_pk`, [...key]);
    // Strict: a wrong type is refused, as PostgreSQL refuses it. Without rowid: rows lie in the order of their key, which
    // here is the order in which they come, so an insert writes one tree and not two.
    await (this.#isSqlite ? builder.modifyEnd(sql`strict, without rowid`) : builder).execute();
  }

  async #index(table: keyof Tables, name: string, { columns, where, isUnique }: Index): Promise<void> {
    let builder = this.#db.schema
      .createIndex(`${table}_${name}`)
      .on(table)
      .columns([...columns]);
    if (isUnique) builder = builder.unique();
    await (where ? builder.where(where) : builder).execute();
  }

  // Binary collation: both databases sort text by its bytes, so cursors over keys mean the same.
  #type(kind: Kind): RawBuilder<unknown> {
    if (this.#isSqlite) return kind === "text" ? sql`text` : sql`integer`;
    return kind === "text" ? sql`text collate "C"` : sql`bigint`;
  }
}
