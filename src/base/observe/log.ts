/** One structured line per event, on stderr: stdout belongs to protocols and data. */
import process from "node:process";
import { redact } from "./redact.ts";

export type LogLevel = "debug" | "info" | "warn" | "error";
export type LogFields = Readonly<Record<string, unknown>>;

export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** Returns a log that adds `fields` to each line. */
  with(fields: LogFields): Log;
}

const RANK: Record<LogLevel, number> = { debug: 0, info: 1, warn: 2, error: 3 };

/** Creates a log that writes JSON lines at or above `level`. Errors become their name, message, stack and cause. */
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

/** Omits fields that cannot be written as JSON, such as circular ones: a log never fails its caller. */
function toLine(entry: LogFields): string {
  try {
    return JSON.stringify(entry, plain).replaceAll(STEERING, escaped);
  } catch (error) {
    const { time, level, message } = entry;
    const problem = error instanceof RangeError ? "nested without end" : "no JSON";
    return JSON.stringify({ time, level, message, problem: `the fields are left out: ${problem}` }, plain);
  }
}

/** Control characters that JSON does not escape and terminals interpret: logged text may be hostile. */
const STEERING = /[\u007f-\u009f]/g;

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** Redacts strings one by one: in the finished line a replacement could remove the quotes. */
function plain(_key: string, value: unknown): unknown {
  if (typeof value === "string") return redact(value);
  if (value instanceof Error) {
    return { name: value.name, message: value.message, stack: value.stack, cause: value.cause };
  }
  return typeof value === "bigint" ? value.toString() : value;
}
