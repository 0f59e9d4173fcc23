/** Asks for confirmation at the terminal, on stderr: stdout is for data. */
import process from "node:process";

export const confirm = {
  isPossible: (): boolean => process.stdin.isTTY === true && process.stderr.isTTY === true,

  /** Resolves to false for "no" and when the prompt is cancelled. */
  async ask(message: string): Promise<boolean> {
    const prompts = await import("@clack/prompts");
    const answer = await prompts.confirm({ message, initialValue: false, output: process.stderr });
    return answer === true;
  },
};
