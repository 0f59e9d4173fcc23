/** One structured line per fact, on stderr: stdout belongs to protocols and data. */
import process from "node:process";
import { redact } from "./redact.ts";

export type LogLevel = "debug" | "info" | "warn" | "error";
export type LogFields = Readonly<Record<string, unknown>>;

export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** A log whose lines all carry `fields`. */
  with(fields: LogFields): Log;
}

const RANK: Record<LogLevel, number> = { debug: 0, info: 1, warn: 2, error: 3 };

/** JSON lines at or above `level`. Errors among the fields are written as their name, message, stack and cause. */
export function createLog(
  level: LogLevel,
  write: (line: string) => void = (line) => void process.stderr.write(line),
  base: LogFields = {},
): Log {
  const emit =
    (at: LogLevel) =>
    (message: string, fields: LogFields = {}) => {
      if (RANK[at] < RANK[level]) return;
      const entry = { time: new Date().toISOString(), level: at, message, ...base, ...fields };
      write(`${toLine(entry)}\n`);
    };
  return {
    debug: emit("debug"),
    info: emit("info"),
    warn: emit("warn"),
    error: emit("error"),
    with: (fields) => createLog(level, write, { ...base, ...fields }),
  };
}

export const silentLog: Log = createLog("error", () => {});

/** A log never fails its caller: fields that cannot be written as JSON, such as circular ones, are left out. */
function toLine(entry: LogFields): string {
  try {
    return JSON.stringify(entry, plain).replaceAll(STEERING, escaped);
  } catch (error) {
    const { time, level, message } = entry;
    const problem = error instanceof RangeError ? "nested without end" : "no JSON";
    return JSON.stringify({ time, level, message, problem: `the fields are left out: ${problem}` }, plain);
  }
}

/** What JSON leaves as it is and terminals obey: strangers' texts are logged, too. */
const STEERING = /[\u007f-\u009f]/g;

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** Strings are redacted one by one: in the finished line a replacement could eat the quotes around it. */
function plain(_key: string, value: unknown): unknown {
  if (typeof value === "string") return redact(value);
  if (value instanceof Error) {
    return { name: value.name, message: value.message, stack: value.stack, cause: value.cause };
  }
  return typeof value === "bigint" ? value.toString() : value;
}
