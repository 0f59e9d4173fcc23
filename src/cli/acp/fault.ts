/** What went wrong inside, on standard error: the editor is told no more than that it did. */
import process from "node:process";
import { redact } from "../../base/observe/redact.ts";

/** Of a bug its stack is what helps. */
export function reportFault(error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`${redact(text)}\n`);
}
