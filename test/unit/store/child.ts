import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import process from "node:process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** Another process on the same runtime, that runs one of the scripts beside this file and talks in lines of JSON. */
export interface Child {
  readonly process: ChildProcess;
  /** The lines it writes, parsed. */
  readonly lines: AsyncIterable<unknown>;
  /** Resolves to its exit code, null when a signal ended it. */
  readonly exit: Promise<number | null>;
}

export function startChild(script: string, args: readonly string[]): Child {
  const path = fileURLToPath(new URL(script, import.meta.url));
  const run = "Deno" in globalThis ? ["run", "-A", "--no-check", path] : [path];
  const child = spawn(process.execPath, [...run, ...args], { stdio: ["pipe", "pipe", "inherit"] });
  const exit = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)));
  // Read from the start: what nobody reads is thrown away when the child exits.
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return { process: child, lines: parsed(lines), exit };
}

/**
 * To be called by a script that does not end by itself: it ends when the process is gone that started it, which cannot kill
 * it any more.
 */
export function endWithParent(): void {
  process.stdin.once("end", () => process.exit(1)).resume();
}

async function* parsed(lines: AsyncIterator<string>): AsyncGenerator<unknown> {
  for (let line = await lines.next(); !line.done; line = await lines.next()) yield JSON.parse(line.value);
}
