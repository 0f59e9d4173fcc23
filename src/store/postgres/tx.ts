import type { Kysely } from "kysely";
import type { WorkTx } from "../tx/driver.ts";
import { findStatement, insertStatements, incrementTexts, updateStatement } from "../tx/statement.ts";
import type { Tables } from "../schema/tables.ts";
import type { Row, StepTexts, Value } from "../tx/tx.ts";

export interface Answer {
  readonly rows: readonly Row[];
  readonly changes: number;
}

/** State that the works of one transaction share. */
export interface PostgresShare {
  /** Sends a statement with `$1, $2...` for its values on the transaction's connection. */
  send(sql: string, values: readonly Value[]): Promise<Answer>;
  readonly kysely: Kysely<Tables>;
  readonly nowMs: number;
  readonly afterCommit: (() => void)[];
}

/** One work's view of a PostgreSQL transaction. Statements that are not awaited one by one are pipelined. */
export class PostgresTx implements WorkTx {
  readonly dialect = "postgres";
  readonly nowMs: number;
  readonly #share: PostgresShare;
  readonly #pending = new Set<Promise<unknown>>();
  #failure: unknown;
  #left = false;

  constructor(share: PostgresShare) {
    this.#share = share;
    this.nowMs = share.nowMs;
  }

  get db(): Kysely<Tables> {
    this.#assertOpen();
    return this.#share.kysely;
  }

  // Not awaited: a later statement, or the work's end, reports a failure.
  insert<K extends keyof Tables>(table: K, rows: readonly Tables[K][]): Promise<void> {
    try {
      this.#assertOpen();
      for (const { sql, values } of insertStatements(table, rows))
        this.#ask(sql, values).catch(() => undefined);
      return Promise.resolve();
    } catch (error) {
      return Promise.reject((this.#failure ??= error));
    }
  }

  async update<K extends keyof Tables>(
    table: K,
    where: Partial<Tables[K]>,
    set: Partial<Tables[K]>,
  ): Promise<number> {
    const { sql, values } = updateStatement(table, where, set);
    return (await this.#ask(sql, values)).changes;
  }

  increment<K extends keyof Tables>(
    table: K,
    where: Partial<Tables[K]>,
    column: keyof Tables[K] & string,
    by: number,
  ): Promise<number | undefined> {
    const { texts, values } = incrementTexts(table, where, column);
    return this.step(texts, by, { where: values });
  }

  async step(
    texts: StepTexts,
    by: number,
    { where, set = [] }: { readonly where: readonly Value[]; readonly set?: readonly Value[] },
  ): Promise<number | undefined> {
    return (await this.#ask(texts.move, [by, ...set, ...where])).rows[0]?.[texts.column] as
      | number
      | undefined;
  }

  async find<K extends keyof Tables>(table: K, where: Partial<Tables[K]>): Promise<Tables[K] | undefined> {
    const { sql, values } = findStatement(table, where);
    return (await this.#ask(sql, values)).rows[0] as Tables[K] | undefined;
  }

  async all(sql: string, values: readonly Value[]): Promise<readonly Row[]> {
    return (await this.#ask(sql, values)).rows;
  }

  async run(sql: string, values: readonly Value[]): Promise<number> {
    return (await this.#ask(sql, values)).changes;
  }

  afterCommit(run: () => void): void {
    this.#assertOpen();
    this.#share.afterCommit.push(run);
  }

  /** Sends one statement and tracks it until it is answered. */
  async send(sql: string, values: readonly Value[]): Promise<Answer> {
    this.#assertOpen();
    const sent = this.#share.send(sql, values);
    this.#pending.add(sent);
    try {
      return await sent;
    } catch (error) {
      throw (this.#failure ??= error);
    } finally {
      this.#pending.delete(sent);
    }
  }

  async finish(): Promise<void> {
    this.#left = true;
    if (this.#pending.size > 0) await Promise.allSettled(this.#pending);
    if (this.#failure !== undefined) throw this.#failure;
  }

  #ask(sql: string, values: readonly Value[]): Promise<Answer> {
    return this.send(numbered(sql), values);
  }

  #assertOpen(): void {
    if (this.#left)
      throw new TypeError("The transaction is over: use `tx` inside its work only, and await it.");
    // A statement after a failed one would only report that the transaction has failed; or, when the connection is
    // lost, would be written to a closed socket.
    if (this.#failure !== undefined) throw this.#failure;
  }
}

const numberedTexts = new Map<string, string>();

/** Replaces `?` by `$1`, `$2`... for PostgreSQL. The store's texts are few, and contain no other `?`. */
export function numbered(sql: string): string {
  let text = numberedTexts.get(sql);
  if (text === undefined) {
    let count = 0;
    text = sql.replaceAll("?", () => `$${++count}`);
    numberedTexts.set(sql, text);
  }
  return text;
}
