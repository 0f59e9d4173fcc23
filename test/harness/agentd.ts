/** `agentd` as a process of the runtime that runs the tests. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import process from "node:process";
import { codeCache } from "./code-cache.ts";

const main = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));
const isDeno = process.versions["deno"] !== undefined;

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** How a script is run: with the same runtime as the test. */
export function commandOf(script: string): readonly [string, readonly string[]] {
  return isDeno ? [process.execPath, ["run", "-A", "--no-check", script]] : [process.execPath, [script]];
}

export function runScript(
  script: string,
  words: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<Outcome> {
  const [file, first] = commandOf(script);
  return new Promise((resolve, reject) => {
    const options = { env: { PATH: process.env["PATH"] ?? "", ...codeCache(), ...env }, timeout: 60_000 };
    execFile(file, [...first, ...words], options, (error, stdout, stderr) => {
      const code = error === null ? 0 : error.code;
      if (typeof code !== "number") return reject(error);
      resolve({ code, stdout, stderr });
    });
  });
}

/** Runs `agentd` with nothing in its environment but `env`. */
export function agentd(
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  return runScript(main, words, env);
}
