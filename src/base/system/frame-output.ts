/** Reserves standard output for a protocol. Touches the machine. */
import { Console } from "node:console";
import process from "node:process";

/** Standard output, reserved for frames. */
export interface FrameOutput {
  write(text: string): void;
  /** Bytes that are not written yet. */
  buffered(): number;
  onDrain(run: () => void): void;
  /** Aborts when the reader is gone. */
  onBroken(run: () => void): void;
  /** Resolves when everything is written, or the reader is gone. */
  flushed(): Promise<void>;
}

/**
 * Reserves standard output for the result. Everything else that is printed, by the console or the stream itself, goes
 * to standard error.
 */
export function takeStdout(): FrameOutput {
  const { stdout, stderr } = process;
  const write = stdout.write.bind(stdout);
  stdout.write = ((...chunk: Parameters<typeof stderr.write>) =>
    stderr.write(...chunk)) as typeof stdout.write;
  // Deno's console does not use the stream.
  const aside = new Console(stderr, stderr);
  for (const name of PRINTING) globalThis.console[name] = aside[name].bind(aside);
  const broken = Promise.withResolvers<void>();
  // The command line's own listener would exit at once; here sessions are saved first.
  stdout.removeAllListeners("error");
  stdout.on("error", () => broken.resolve());
  stdout.on("close", () => broken.resolve());
  let corked = "";
  const flush = () => {
    const text = corked;
    corked = "";
    if (text !== "") write(text);
  };
  return {
    // A system call costs more than a frame: frames that are ready together are written in one.
    write: (text) => {
      if (corked === "") process.nextTick(flush);
      corked += text;
      if (corked.length > MAX_CORKED_CHARS) flush();
    },
    buffered: () => (stdout.writableLength ?? 0) + corked.length,
    onDrain: (run) => void stdout.on("drain", run),
    onBroken: (run) => void broken.promise.then(run),
    flushed: () => {
      flush();
      return Promise.race([broken.promise, new Promise<void>((resolve) => write("", () => resolve()))]);
    },
  };
}

const MAX_CORKED_CHARS = 65_536;
/** Methods of the console that print to standard output. */
const PRINTING = [
  "log",
  "info",
  "debug",
  "dir",
  "dirxml",
  "table",
  "group",
  "groupCollapsed",
  "groupEnd",
  "count",
  "countReset",
  "time",
  "timeLog",
  "timeEnd",
  "clear",
] as const;
