/** Text that comes in pieces, to stdout or to a file, never faster than it is taken. Touches the machine. */
import { randomBytes } from "node:crypto";
import { link, lstat, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import process from "node:process";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { ServiceError } from "../../base/errors.ts";
import { UsageError } from "./arguments.ts";
import { warn } from "./output.ts";

/** A person who gives up must not leave half a conversation in a hidden file. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Ends without complaint when the reader has had enough, such as `head`. */
export async function writeStdout(text: AsyncIterable<string>): Promise<void> {
  try {
    await pipeline(Readable.from(text), process.stdout, { end: false });
  } catch (error) {
    if (codeOf(error) !== "EPIPE") throw error;
  }
}

/**
 * Writes a file of mode 0600, whole or not at all. Resolves to its absolute path. ServiceError `invalid_request` when
 * there is one already and `force` is not set, and when it cannot be written.
 */
export async function writeOutput(
  file: string,
  text: AsyncIterable<string>,
  { force }: { readonly force: boolean },
): Promise<string> {
  const path = resolve(file);
  // Asked before the work; the link below is what really prevents it.
  if (!force && (await isThere(path))) throw taken(path);
  const draft = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString("hex")}.tmp`);
  const stop = new AbortController();
  const onSignal = () => stop.abort(new ServiceError("invalid_request", "Stopped; nothing was written."));
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
    throw new ServiceError("invalid_request", `${path} cannot be written (${code}). Name another file.`, {
      cause: error,
    });
  } finally {
    for (const name of SIGNALS) process.off(name, onSignal);
    await rm(draft, { force: true });
  }
}

async function writeDraft(draft: string, text: AsyncIterable<string>, signal: AbortSignal): Promise<void> {
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
    `${path} exists. Name another file, or give --force to replace it.`,
  );
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}

const MAX_BYTES = 4 * 1024 * 1024;
/** Whoever waits this long for an end of the input may not know that it is waited for. */
const PATIENCE_MS = 3_000;

/** All of the input, without the line feed at its end. Throws {@link UsageError} when it is too long for a prompt. */
export async function readStandardInput(): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  const waiting = setTimeout(() => warn("Reading the prompt from standard input, to its end."), PATIENCE_MS);
  try {
    for await (const chunk of process.stdin as AsyncIterable<Uint8Array>) {
      bytes += chunk.byteLength;
      if (bytes > MAX_BYTES) throw new UsageError(`The prompt is longer than ${MAX_BYTES} bytes.`);
      chunks.push(chunk);
    }
  } finally {
    clearTimeout(waiting);
  }
  return Buffer.concat(chunks)
    .toString("utf8")
    .replace(/\r?\n$/, "");
}
