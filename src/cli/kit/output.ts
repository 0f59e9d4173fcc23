/** Prints data to stdout and everything else to stderr, so that output can be piped. */
import process from "node:process";

export function print(text: string): void {
  process.stdout.write(text.endsWith("\n") ? text : `${text}\n`);
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value, null, 2));
}

export function warn(text: string): void {
  process.stderr.write(`${text}\n`);
}
