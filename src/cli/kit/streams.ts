/** Streams text to stdout or a file with backpressure, and reads standard input. Touches the machine. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { link, lstat, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import process from "node:process";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { ServiceError } from "../../base/errors.ts";
import { UsageError } from "./arguments.ts";
import { warn } from "./output.ts";

/** An interrupted export must not leave a partial file. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Writes to stdout. Ends silently when the reader closes the pipe, as `head` does. */
export async function writeStdout(text: AsyncIterable<string | Uint8Array>): Promise<void> {
  try {
    await pipeline(Readable.from(text), process.stdout, { end: false });
  } catch (error) {
    if (codeOf(error) !== "EPIPE") throw error;
  }
}

/**
 * Writes a file with mode 0600 atomically. Resolves to its absolute path. ServiceError `invalid_request` if it exists and
 * `force` is not set, or if it cannot be written.
 */
export async function writeOutput(
  file: string,
  text: AsyncIterable<string | Uint8Array>,
  { force }: { readonly force: boolean },
): Promise<string> {
  const path = resolve(file);
  // Fails early; the link below guarantees it.
  if (!force && (await isThere(path))) throw taken(path);
  const draft = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString("hex")}.tmp`);
  const stop = new AbortController();
  const onSignal = () => stop.abort(new ServiceError("invalid_request", "Stopped. Nothing was written."));
  for (const name of SIGNALS) process.once(name, onSignal);
  try {
    await writeDraft(draft, text, stop.signal);
    if (force) await rename(draft, path);
    else await link(draft, path);
    return path;
  } catch (error) {
    if (error instanceof ServiceError) throw error;
    const code = codeOf(error);
    if (code === undefined) throw error;
    if (code === "EEXIST" && !force) throw taken(path);
    throw new ServiceError("invalid_request", `Cannot write ${path} (${code}). Choose another file.`, {
      cause: error,
    });
  } finally {
    for (const name of SIGNALS) process.off(name, onSignal);
    await rm(draft, { force: true });
  }
}

async function writeDraft(
  draft: string,
  text: AsyncIterable<string | Uint8Array>,
  signal: AbortSignal,
): Promise<void> {
  const handle = await open(draft, "wx", 0o600);
  try {
    for await (const piece of text) {
      signal.throwIfAborted();
      await handle.appendFile(piece);
    }
    await handle.sync();
    signal.throwIfAborted();
  } finally {
    await handle.close();
  }
}

async function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

function taken(path: string): ServiceError {
  return new ServiceError(
    "invalid_request",
    `${path} already exists. Choose another file, or pass --force to replace it.`,
  );
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}

const MAX_BYTES = 4 * 1024 * 1024;
/** After this time, a user may not know that the command waits for the end of its input. */
const HINT_AFTER_MS = 3_000;

const MAX_SECRET_BYTES = 64 * 1024;

/** Reads a secret from standard input, which no process list shows. UsageError that names `what` if it is empty. */
export async function readSecret(what: string): Promise<string> {
  const secret = (await readBytes(MAX_SECRET_BYTES, what)).toString("utf8").trim();
  if (secret === "") throw new UsageError(`${what}: standard input is empty.`);
  return secret;
}

/**
 * Warns that other users of the machine see a secret of the command line in the process list. Says nothing without a
 * value, or for `env:NAME`, which is none.
 */
export function warnOfArgument(what: string, value: string | undefined, instead: string): void {
  if (value === undefined || value === "" || value.startsWith("env:")) return;
  warn(`Warning: every user of this machine can see ${what} in the process list. ${instead}`);
}

/** Reads all input, without its last line feed. Throws {@link UsageError} if it is too long for a prompt. */
export async function readStandardInput(): Promise<string> {
  const waiting = setTimeout(
    () => warn("Reading the prompt from standard input until its end."),
    HINT_AFTER_MS,
  );
  try {
    return (await readBytes(MAX_BYTES, "The prompt")).toString("utf8").replace(/\r?\n$/, "");
  } finally {
    clearTimeout(waiting);
  }
}

async function readBytes(maxBytes: number, what: string): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of process.stdin as AsyncIterable<Uint8Array>) {
    bytes += chunk.byteLength;
    if (bytes > maxBytes) throw new UsageError(`${what} exceeds ${maxBytes} bytes.`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

interface LineOptions {
  /** Ends the lines. */
  readonly signal: AbortSignal;
  /** The longest line. */
  readonly maxCharacters: number;
}

/** Yields the lines of standard input until its end. UsageError for a line that is too long. */
export async function* readLines({ signal, maxCharacters }: LineOptions): AsyncGenerator<string> {
  const { stdin } = process;
  // Without this, the process would wait for the end of its input.
  const stop = () => void stdin.destroy();
  signal.addEventListener("abort", stop, { once: true });
  stdin.setEncoding("utf8");
  let rest = "";
  try {
    for await (const text of stdin as AsyncIterable<string>) {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      if ([rest, ...lines].some((line) => line.length > maxCharacters))
        throw new UsageError(`A line of standard input exceeds ${maxCharacters} characters.`);
      yield* lines;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener("abort", stop);
  }
  if (rest !== "" && !signal.aborted) yield rest;
}

/** Writes to stdout. Resolves when its reader can take more. */
export async function writeLine(line: string): Promise<void> {
  if (process.stdout.write(line)) return;
  await once(process.stdout, "drain");
}
