/** What `agentd chat` is asked when there is no terminal: the words of the command line, and what is piped in. */
import { fstatSync } from "node:fs";
import process from "node:process";
import { UsageError } from "../kit/arguments.ts";
import { readStandardInput } from "../kit/streams.ts";

/** Throws {@link UsageError} when there is nothing to ask, or too much. */
export async function readPrompt(words: string | undefined): Promise<string> {
  const piped = isPiped() ? await readStandardInput() : "";
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
