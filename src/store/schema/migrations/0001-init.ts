import { sql } from "kysely";
import type { SchemaBuilder, Shape } from "./builder.ts";

/** The tables of the first version. */
export function init(schema: SchemaBuilder): Promise<void> {
  return new Init(schema).up();
}

class Init {
  readonly #schema: SchemaBuilder;

  constructor(schema: SchemaBuilder) {
    this.#schema = schema;
  }

  async up(): Promise<void> {
    await this.#facts();
    await this.#conversations();
    await this.#journal();
    await this.#questions();
    await this.#ledger();
    await this.#leased("outbox", { target: "text", payload: "text", ref: "text?" }, "due");
    await this.#leased("jobs", { kind: "text", ref: "text", payload: "text" }, "queued");
  }

  async #facts(): Promise<void> {
    await this.#schema.table("facts", { key: "text", value: "text" }, ["key"]);
    const random = this.#schema.isSqlite
      ? sql`lower(hex(randomblob(8)))`
      : sql`replace(gen_random_uuid()::text, '-', '')`;
    await sql`insert into facts (key, value) values ('epoch', ${random})`.execute(this.#schema.db);
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
    await this.#schema.table("sessions", session, ["id"]);
    await this.#schema.index("sessions", "by_key", {
      columns: ["owner", "session_key"],
      where: sql<boolean>`session_key is not null`,
    });
    await this.#schema.index("sessions", "by_update", {
      columns: ["updated_at"],
      where: sql<boolean>`transient = 0`,
    });
    await this.#schema.index("sessions", "leased", {
      columns: ["lease_owner", "lease_until"],
      where: sql<boolean>`lease_owner is not null`,
    });
    await this.#schema.table("runs", run, ["id"]);
    await this.#schema.index("runs", "by_session", { columns: ["session_id", "created_at"] });
    await this.#schema.index("runs", "by_parent", {
      columns: ["parent_id"],
      where: sql<boolean>`parent_id is not null`,
    });
    await this.#schema.index("runs", "ended", {
      columns: ["ended_at"],
      where: sql<boolean>`ended_at is not null`,
    });
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
    await this.#schema.table("messages", message, ["session_id", "seq"]);
    await this.#schema.table("events", event, ["session_id", "seq"]);
    await this.#schema.index("events", "by_run", {
      columns: ["run_id", "run_seq"],
      where: sql<boolean>`run_id is not null`,
      isUnique: true,
    });
  }

  async #questions(): Promise<void> {
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
    await this.#schema.table("questions", ask, ["id"]);
    await this.#schema.index("questions", "open", {
      columns: ["session_id", "created_at"],
      where: sql<boolean>`status = 'open'`,
    });
    await this.#schema.index("questions", "by_run", { columns: ["run_id"] });
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
    await this.#schema.table("ledger", claim, ["scope", "key"]);
    await this.#schema.index("ledger", "by_expiry", { columns: ["expires_at"] });
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
    await this.#schema.table(table, leased, ["id"]);
    await this.#schema.index(table, "ready", {
      columns: ["available_at"],
      where: sql<boolean>`status in (${sql.lit(ready)}, 'leased')`,
    });
    await this.#schema.index(table, "done", {
      columns: ["done_at"],
      where: sql<boolean>`done_at is not null`,
    });
  }
}
