/** Log lines for people. Pure. */
import { shorten } from "../../base/text.ts";
import { isRecord } from "../../base/data.ts";
import { redact, type LogLevel } from "../../base/observe.ts";
import { oneLine } from "../sessions/text.ts";

export interface LogEntry {
  /** RFC 3339. */
  readonly time: string;
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

export const LEVELS = ["debug", "info", "warn", "error"] as const satisfies readonly LogLevel[];

/** Parses a JSON line of the log; undefined when it is none, such as the rest of an interrupted write. */
export function parseLogLine(line: string): LogEntry | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return undefined;
  }
  if (!isRecord(value)) return undefined;
  const { time, level, message, ...fields } = value;
  const known = LEVELS.find((each) => each === level);
  if (typeof time !== "string" || known === undefined || typeof message !== "string") return undefined;
  return { time, level: known, message, fields };
}

export interface TextOptions {
  readonly hasColour: boolean;
  /** Adds the date to the time. */
  readonly hasDate: boolean;
}

/** Frames of a stack that help a reader; the file has all of them. */
const MAX_FRAMES = 8;
const MAX_FIELD_CHARACTERS = 500;

/** Returns an entry as `21:07:33 WARN  sentence  name=value`, with the stack of an error below. Local time. */
export function formatEntry(entry: LogEntry, { hasColour, hasDate }: TextOptions): string {
  const { time, level, message, fields } = entry;
  const paint = hasColour ? coloured : plain;
  const pairs = Object.entries(fields).map(
    ([name, value]) => `${paint("dim", `${oneLine(name)}=`)}${valueText(value)}`,
  );
  const first = [
    paint("dim", localTime(time, hasDate)),
    paint(level, level.toUpperCase().padEnd(5)),
    [oneLine(message), ...(pairs.length === 0 ? [] : [pairs.join(" ")])].join("  "),
  ].join(" ");
  const stack = level === "error" ? framesOf(fields["error"]) : [];
  return [first, ...stack.map((frame) => paint("dim", `    ${frame}`))].join("\n");
}

/** Returns a line that is not an entry as it can be shown. */
export function formatRawLine(line: string): string {
  return redact(oneLine(line));
}

const CODES = { dim: "2", debug: "2", info: "36", warn: "33", error: "31" } as const;
type Style = keyof typeof CODES;

function coloured(style: Style, text: string): string {
  return `\u001b[${CODES[style]}m${text}\u001b[0m`;
}

function plain(_style: Style, text: string): string {
  return text;
}

function localTime(time: string, hasDate: boolean): string {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return oneLine(time);
  const two = (value: number) => String(value).padStart(2, "0");
  const clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
  return hasDate ? `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock}` : clock;
}

/** Returns the value on one line, in quotes where it has blanks. Errors become `Name: message`, then their causes. */
function valueText(value: unknown): string {
  const text = isError(value) ? errorText(value) : typeof value === "string" ? value : JSON.stringify(value);
  const line = oneLine(text);
  const short = shorten(line, MAX_FIELD_CHARACTERS);
  return typeof value !== "object" && !/[\s="]/.test(short) ? short : quoted(short, value);
}

function quoted(text: string, value: unknown): string {
  return typeof value === "string" || isError(value) ? JSON.stringify(text) : text;
}

/** An error as the log writes it. */
interface WrittenError {
  readonly name: string;
  readonly message: string;
  readonly stack?: unknown;
  readonly cause?: unknown;
}

function isError(value: unknown): value is WrittenError {
  return isRecord(value) && typeof value["name"] === "string" && typeof value["message"] === "string";
}

const MAX_CAUSES = 5;

function errorText(error: WrittenError, depth = 0): string {
  const own = error.message === "" ? error.name : `${error.name}: ${error.message}`;
  const { cause } = error;
  return isError(cause) && depth < MAX_CAUSES ? `${own}; cause: ${errorText(cause, depth + 1)}` : own;
}

function framesOf(error: unknown): readonly string[] {
  if (!isError(error) || typeof error.stack !== "string") return [];
  const frames = error.stack.split("\n").filter((line) => /^\s+at /.test(line));
  return frames.slice(0, MAX_FRAMES).map((frame) => oneLine(frame));
}
