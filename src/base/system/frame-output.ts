/** Standard output, for a protocol alone. Touches the machine. */
import { Console } from "node:console";
import process from "node:process";

/** Standard output with the way to it kept for frames alone. */
export interface FrameOutput {
  write(text: string): void;
  /** Bytes that have not left yet. */
  buffered(): number;
  onDrain(run: () => void): void;
  /** Nobody reads any more. */
  onBroken(run: () => void): void;
  /** Resolves when everything has left, or nobody reads. */
  flushed(): Promise<void>;
}

/**
 * Takes standard output: from now on only what is written by the result gets there. What anybody else prints, by the
 * console or by the stream itself, goes to standard error.
 */
export function takeStdout(): FrameOutput {
  const { stdout, stderr } = process;
  const write = stdout.write.bind(stdout);
  stdout.write = ((...chunk: Parameters<typeof stderr.write>) =>
    stderr.write(...chunk)) as typeof stdout.write;
  // Deno's own console does not print by the stream.
  const aside = new Console(stderr, stderr);
  for (const name of PRINTING) globalThis.console[name] = aside[name].bind(aside);
  const broken = Promise.withResolvers<void>();
  // The command line's own listener would leave at once; here sessions are put away first.
  stdout.removeAllListeners("error");
  stdout.on("error", () => broken.resolve());
  stdout.on("close", () => broken.resolve());
  let together = "";
  const leave = () => {
    const text = together;
    together = "";
    if (text !== "") write(text);
  };
  return {
    // A system call costs more than an answer: those that are ready at once leave in one.
    write: (text) => {
      if (together === "") process.nextTick(leave);
      together += text;
      if (together.length > TOGETHER_CHARS) leave();
    },
    buffered: () => (stdout.writableLength ?? 0) + together.length,
    onDrain: (run) => void stdout.on("drain", run),
    onBroken: (run) => void broken.promise.then(run),
    flushed: () => {
      leave();
      return Promise.race([broken.promise, new Promise<void>((resolve) => write("", () => resolve()))]);
    },
  };
}

const TOGETHER_CHARS = 65_536;
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
