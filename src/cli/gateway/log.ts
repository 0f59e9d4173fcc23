/** The log of `agentd gateway`: on stderr, as text for people or as JSON lines, and in the log file of the home. */
import { existsSync, fstatSync } from "node:fs";
import process from "node:process";
import type { Config } from "../../../generated/config/types.gen.ts";
import { createLog, type Log } from "../../base/observe.ts";
import { LogFile, logPath } from "../service/log-file.ts";
import { formatEntry, parseLogLine } from "../service/log-text.ts";
import { hasColours } from "../kit/output.ts";

export const LOG_FORMATS = ["auto", "json", "text"] as const;
type LogSettings = Config["log"];

/** A start that takes longer shows what it does, as often. */
const MAX_HELD_MS = 3_000;
const MAX_HELD_LINES = 200;
/** For a reason why the gateway did not start, before its settings are known. */
const DEFAULT_FILE_BYTES = 5_242_880;

export class GatewayLog {
  readonly #home: string;
  readonly #format: string | undefined;
  #isText: boolean;
  /** Lines that wait until the start message is printed; undefined once it is. */
  #held: string[] | undefined;
  readonly #showing: NodeJS.Timeout | undefined;
  #file: LogFile | undefined;
  #isOpen = false;

  /** `format` overrides the setting. */
  constructor(home: string, format: string | undefined) {
    this.#home = home;
    this.#format = format;
    this.#isText = format === "text";
    this.#held = isSharedOutput() ? [] : undefined;
    if (this.#held) this.#showing = setInterval(() => this.#show(), MAX_HELD_MS).unref();
    // Node prints the error itself.
    process.on("uncaughtExceptionMonitor", (error) => {
      this.release();
      this.#toFile("uncaught exception", { error });
    });
  }

  /** Returns the log with the settings of the configuration. */
  readonly open = ({ level, format, max_file_bytes: maxBytes }: LogSettings): Log => {
    const wanted = this.#format ?? format;
    this.#isText = wanted === "text" || (wanted === "auto" && process.stderr.isTTY);
    this.#isOpen = true;
    if (maxBytes > 0) this.#file = this.#createFile(maxBytes);
    return createLog(level, (line) => {
      this.#toStderr(line);
      this.#file?.write(line);
    });
  };

  /** Prints the lines of the start, and from now on every line at once. */
  release(): void {
    clearInterval(this.#showing);
    this.#show();
    this.#held = undefined;
  }

  /** Records in the file why the gateway did not start; the caller prints it. */
  failed(error: unknown): void {
    this.release();
    // Without valid settings, a file is not created, but one that exists belongs to this home.
    if (!this.#isOpen && existsSync(logPath(this.#home))) this.#file = this.#createFile(DEFAULT_FILE_BYTES);
    this.#toFile("the gateway did not start", {
      reason: error instanceof Error ? error.message : String(error),
    });
  }

  #show(): void {
    for (const line of this.#held?.splice(0) ?? []) this.#print(line);
  }

  #toFile(message: string, fields: Readonly<Record<string, unknown>>): void {
    createLog("error", (line) => this.#file?.write(line)).error(message, fields);
  }

  #createFile(maxBytes: number): LogFile {
    const path = logPath(this.#home);
    const own = createLog("info", (line) => this.#toStderr(line));
    return new LogFile({
      path,
      maxBytes,
      onProblem: (reason) => own.warn("the log file cannot be written; its lines are lost", { path, reason }),
      onRecovery: (lost) => own.info("the log file is written again", { path, lost }),
    });
  }

  #toStderr(line: string): void {
    if (!this.#held) return this.#print(line);
    this.#held.push(line);
    if (this.#held.length >= MAX_HELD_LINES) this.#show();
  }

  #print(line: string): void {
    const entry = this.#isText ? parseLogLine(line) : undefined;
    if (!entry) return void process.stderr.write(line);
    process.stderr.write(
      `${formatEntry(entry, { hasColour: hasColours(process.stderr), hasDate: false })}\n`,
    );
  }
}

/** Returns whether stdout and stderr are the same terminal, file or pipe, where lines of both would mix. */
function isSharedOutput(): boolean {
  try {
    const [out, error] = [fstatSync(1), fstatSync(2)];
    return out.dev === error.dev && out.ino === error.ino;
  } catch {
    return false; // closed
  }
}
