/** The end of the `agentd acp` process, and its error output. */
import { constants } from "node:os";
import process from "node:process";
import { systemClock } from "../../base/time.ts";
import { redact } from "../../base/observe.ts";

const SIGNALS = ["SIGTERM", "SIGHUP", "SIGINT"] as const;
/** The longest time from the start of the shutdown to the exit. */
const EXIT_TIMEOUT_MS = 2_900;

/**
 * Shuts the process down. A signal ends it at once if there is nothing to close yet, and so does a second signal. Child
 * processes of tools end with it in any case.
 */
export class Shutdown {
  #end: (() => void) | undefined;
  #isEnding = false;

  /** Starts listening for signals: without listeners, a library with its own cleanup would end the process. */
  constructor() {
    for (const name of SIGNALS) process.on(name, () => this.#signalled(128 + constants.signals[name]));
  }

  /** Makes a signal call `end`, which must lead to {@link exit}. */
  onSignal(end: () => void): void {
    this.#end = end;
  }

  /** Starts the shutdown, which exits after a timeout at the latest. */
  begin(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    systemClock.after(EXIT_TIMEOUT_MS, () => this.exit());
  }

  exit(): never {
    process.exit(0);
  }

  #signalled(exitCode: number): void {
    if (this.#isEnding) process.exit(exitCode);
    this.begin();
    if (!this.#end) this.exit();
    this.#end();
  }
}

/** Prints an internal error with its stack to standard error. The editor sees only its kind. */
export function reportError(error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`${redact(text)}\n`);
}
