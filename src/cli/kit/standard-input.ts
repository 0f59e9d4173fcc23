/** What is piped into a command. */
import process from "node:process";
import { UsageError } from "./arguments.ts";
import { warn } from "./output.ts";

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
