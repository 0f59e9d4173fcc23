/** `agentd` for many commands: a process takes more to start than most commands. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import type { Outcome } from "./agentd.ts";
import { oncePerFile } from "./guard.ts";
import { commandsCommand, programEnvironment, type Command } from "./program.ts";

/** Less than the runner waits for a silent test; then the failure shows which command it was. */
const MAX_LIFE_MS = 240_000;

export interface CommandCall {
  readonly words: readonly string[];
  /** The whole environment of the command. */
  readonly env: Readonly<Record<string, string>>;
}

type Run = (words: readonly string[], env?: Readonly<Record<string, string>>) => Promise<Outcome>;

/**
 * Runs a command like `agentd` of agentd.ts, but in a process that has loaded the program: one per file of tests, which runs one
 * command after the other. Not for tests of a start, of a signal, of standard input, of commands at the same time, and of what a
 * command must not show: a secret that an earlier command has read stays redacted.
 */
export const keptAgentd: Run = keepAgentd();

/** Returns a function as {@link keptAgentd}, with a process of its own. */
export function keepAgentd(): Run {
  const open = oncePerFile(
    async () => new KeptProgram({ command: commandsCommand(), env: programEnvironment() }),
  );
  return async (words, env = {}) => (await open()).run({ words, env: programEnvironment(env) });
}

export interface KeptOptions {
  /** What starts the process: as commandsCommand returns it. */
  readonly command: Command;
  /** The working folder of the commands; that of the tests unless given. */
  readonly cwd?: string;
  /** What the process has while it starts; each command brings its own. */
  readonly env: Readonly<Record<string, string>>;
}

/** A process for one command after the other; starts with the first, and again after one that ends it. */
export class KeptProgram implements AsyncDisposable {
  readonly #options: KeptOptions;
  #child: ChildProcess | undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: KeptOptions) {
    this.#options = options;
  }

  run(call: CommandCall): Promise<Outcome> {
    const outcome = this.#last.then(() => this.#perform(call));
    this.#last = outcome.catch(() => {});
    return outcome;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const child = this.#child;
    if (!child) return;
    const ended = once(child, "exit");
    child.disconnect();
    await ended;
  }

  /** What the process writes itself comes before what the command does: from programs that it starts, and when it ends. */
  async #perform(call: CommandCall): Promise<Outcome> {
    const child = (this.#child ??= start(this.#options));
    const [stdout, stderr] = [textsOf(child.stdout), textsOf(child.stderr)];
    const over = new AbortController();
    const hung = setTimeout(() => child.kill("SIGKILL"), MAX_LIFE_MS);
    const answered = once(child, "message", { signal: over.signal }) as Promise<[Outcome]>;
    const ended = once(child, "close", { signal: over.signal }) as Promise<[number | null]>;
    child.send(call);
    try {
      const [said] = await Promise.race([answered, ended]);
      if (said === null) throw new Error(`agentd ${call.words.join(" ")} did not end: ${stderr.end()}`);
      const outcome = typeof said === "object" ? said : { code: said, stdout: "", stderr: "" };
      if (outcome !== said) this.#child = undefined;
      return { ...outcome, stdout: stdout.end() + outcome.stdout, stderr: stderr.end() + outcome.stderr };
    } finally {
      clearTimeout(hung);
      over.abort();
      await Promise.allSettled([answered, ended]);
    }
  }
}

/** Collects what a stream has from now on, until `end`. */
function textsOf(stream: Readable | null): { end(): string } {
  let text = "";
  const take = (chunk: string) => void (text += chunk);
  stream?.on("data", take);
  return { end: () => (stream?.off("data", take), text) };
}

function start({ command: [file, ...words], ...options }: KeptOptions): ChildProcess {
  const child = spawn(file, words, { ...options, stdio: ["pipe", "pipe", "pipe", "ipc"] });
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding("utf8");
  return child;
}
