/** How `agentd acp` is told to end, and that it does end. */
import { constants } from "node:os";
import process from "node:process";
import { systemClock } from "../../base/clock.ts";
import { redact } from "../../base/observe/redact.ts";

const SIGNALS = ["SIGTERM", "SIGHUP", "SIGINT"] as const;
/** From the first word of the end to the end, whatever does not let go. */
const PATIENCE_MS = 2_900;

/**
 * The end of the process. Until there is something to put away a signal ends it at once, and so does a second signal;
 * what its tools started ends with it in any case.
 */
export class Leaving {
  #end: (() => void) | undefined;
  #hasBegun = false;

  /** Listens to signals from now on: a library that cleans up after itself would end the process when nobody else did. */
  constructor() {
    for (const name of SIGNALS) process.on(name, () => this.#signalled(128 + constants.signals[name]));
  }

  /** From now on a signal calls `end`, which is to bring the process to {@link exit}. */
  hold(end: () => void): void {
    this.#end = end;
  }

  /** The end has begun, by a signal or without: it is over in time. */
  begin(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    systemClock.after(PATIENCE_MS, () => this.exit());
  }

  exit(): never {
    process.exit(0);
  }

  #signalled(exitCode: number): void {
    if (this.#hasBegun) process.exit(exitCode);
    this.begin();
    if (!this.#end) this.exit();
    this.#end();
  }
}

/** Of a bug its stack is what helps. */
export function reportFault(error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`${redact(text)}\n`);
}
