/** Asks the person at the terminal. The question goes to stderr: stdout is for data. */
import process from "node:process";

export const confirm = {
  isPossible: (): boolean => process.stdin.isTTY === true && process.stderr.isTTY === true,

  /** False for no, and when the question was broken off. */
  async ask(message: string): Promise<boolean> {
    const prompts = await import("@clack/prompts");
    const answer = await prompts.confirm({ message, initialValue: false, output: process.stderr });
    return answer === true;
  },
};
