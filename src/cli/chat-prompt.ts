/** What `agentd chat` is asked when there is no terminal: the words of the command line, and what is piped in. */
import { fstatSync } from "node:fs";
import process from "node:process";
import { UsageError } from "./arguments.ts";
import { warn } from "./output.ts";

const MAX_BYTES = 4 * 1024 * 1024;
/** Whoever waits this long for an end of the input may not know that it is waited for. */
const PATIENCE_MS = 3_000;

/** Throws {@link UsageError} when there is nothing to ask, or too much. */
export async function readPrompt(words: string | undefined): Promise<string> {
  const piped = isPiped() ? await readAll() : "";
  const prompt = [words ?? "", piped].filter((text) => text.trim() !== "").join("\n\n");
  if (prompt.trim() !== "") return prompt;
  throw new UsageError("There is nothing to ask. Give a prompt, or pipe one in: echo hi | agentd chat");
}

/** A terminal is for typing, and a closed or empty device has nothing to say. */
function isPiped(): boolean {
  try {
    const input = fstatSync(0);
    return !process.stdin.isTTY && (input.isFIFO() || input.isFile() || input.isSocket());
  } catch {
    return false; // closed
  }
}

async function readAll(): Promise<string> {
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
  return Buffer.concat(chunks).toString("utf8");
}
