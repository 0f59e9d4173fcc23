/** Prints data to stdout and everything else to stderr, so that output can be piped. */
import process from "node:process";
import { formatRelative } from "./duration.ts";
import { withProgramName } from "./program.ts";
import { toTable } from "./table.ts";

/** Prints text for people. Commands in the text are named the way this process was called. */
export function print(text: string): void {
  printData(withProgramName(text));
}

/** Prints data for programs, unchanged. */
export function printData(text: string): void {
  process.stdout.write(text.endsWith("\n") ? text : `${text}\n`);
}

export function printJson(value: unknown): void {
  printData(JSON.stringify(value, null, 2));
}

/** Prints a table that fits the terminal. Through a pipe, nothing is shortened. */
export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  print(toTable(head, rows, process.stdout.isTTY ? process.stdout.columns : undefined));
}

/** Returns a time for a table: how long ago at a terminal, ISO 8601 through a pipe. */
export function listTime(atMs: number, nowMs: number): string {
  return process.stdout.isTTY ? formatRelative(atMs, nowMs) : new Date(atMs).toISOString();
}

/** Writes to stderr. Commands in the text are named the way this process was called. */
export function warn(text: string): void {
  process.stderr.write(`${withProgramName(text)}\n`);
}

/** Returns whether the stream is a terminal that shows colours, and the user wants them. */
export function hasColours(stream: NodeJS.WriteStream): boolean {
  const { NO_COLOR, TERM } = process.env;
  return stream.isTTY && !NO_COLOR && TERM !== "dumb" && stream.hasColors();
}
