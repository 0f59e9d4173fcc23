import { ServiceError } from "../../base/errors.ts";

/** Returns the error for a database that cannot be reached, is closed, or cannot write, whatever the statement. */
export function unavailable(message: string, cause?: unknown): ServiceError {
  return new ServiceError("state_store_unavailable", message, { cause });
}

export function isUnavailable(error: unknown): error is ServiceError {
  return error instanceof ServiceError && error.code === "state_store_unavailable";
}

/** Translates a driver's error: to `state_store_unavailable`, or to the same error when the statement caused it. */
export function toStoreError(error: unknown): unknown {
  const { code, errcode } = (error ?? {}) as { code?: unknown; errcode?: unknown };
  if (typeof errcode === "number") return fromSqlite(error, errcode);
  if (code === "ERR_INVALID_STATE") return unavailable("The database is closed.", error);
  if (typeof code === "string" && LOST.test(code)) {
    return unavailable("The database cannot be reached. Check that it runs, then try again.", error);
  }
  return error;
}

/**
 * Returns whether a write failed because its key exists. `Store.write` has retried the work by then: one that looks for
 * the row before it inserts never rejects with it.
 */
export function isDuplicateKey(error: unknown): boolean {
  const { code, errcode } = (error ?? {}) as { code?: unknown; errcode?: unknown };
  return code === "23505" || errcode === 1555 || errcode === 2067;
}

/** Returns whether PostgreSQL aborted a transaction in favour of another one: the same works may succeed now. */
export function isRetryable(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return code === "40P01" || code === "40001";
}

// Connections lost or refused: postgres.js, sockets, and PostgreSQL's classes 08, 53 and 57P.
const LOST =
  /^(CONNECTION_|CONNECT_TIMEOUT$|ECONN|ENOTFOUND$|ENOENT$|EAI_|ETIMEDOUT$|EPIPE$|EHOST|ENET|08|53|57P|28|3D)/;

const SQLITE: Readonly<Record<number, string>> = {
  5: "Another process holds the database for too long. Try again.", // BUSY
  6: "Another connection holds the database for too long. Try again.", // LOCKED
  8: "The database file cannot be written. Check its permissions.", // READONLY
  10: "The disk failed under the database.", // IOERR
  11: 'The database file is damaged. Restore it from a copy that `agentd backup` made; see "Backup" in the README.', // CORRUPT
  13: "The disk is full. Free some space, then try again.", // FULL
  14: "The database file cannot be opened. Check the path and its permissions.", // CANTOPEN
  26: "The file is not a SQLite database.", // NOTADB
};

function fromSqlite(error: unknown, errcode: number): unknown {
  const message = SQLITE[errcode & 0xff];
  return message === undefined ? error : unavailable(message, error);
}
