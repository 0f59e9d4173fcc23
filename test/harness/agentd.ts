/** `agentd` from its start to its end. */
import { execFile } from "node:child_process";
import { agentdCommand, programEnvironment, scriptCommand, type Command } from "./program.ts";

/** Less than the runner waits for a silent test; then the failure shows which command it was. */
const MAX_LIFE_MS = 240_000;

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `agentd` with nothing in its environment but `env`; `input` is its standard input. */
export function agentd(
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
  input?: string,
): Promise<Outcome> {
  return run(agentdCommand(...words), env, input);
}

/** Runs a TypeScript file on the runtime of the tests. */
export function runScript(
  script: string,
  words: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<Outcome> {
  return run(scriptCommand(script, ...words), env);
}

function run(
  [file, ...words]: Command,
  env: Readonly<Record<string, string>>,
  input?: string,
): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const options = { env: programEnvironment(env), timeout: MAX_LIFE_MS };
    const child = execFile(file, words, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : error.code;
      if (typeof code !== "number") return reject(error);
      resolve({ code, stdout, stderr });
    });
    if (input !== undefined) child.stdin?.end(input);
  });
}
