/** Starts of an installed package that must go well, and which of its commands were started. */
import assert from "node:assert/strict";
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, realpath } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import process from "node:process";
import { promisify } from "node:util";
import type { CommandDef } from "citty";
import { subCommandNames, subCommandOf } from "../../../src/cli/kit/command.ts";
import { KeptProgram } from "../../harness/kept-agentd.ts";
import { commandsCommand } from "../../harness/program.ts";
import type { Installed } from "./installed.ts";

/** The words behind `agentd`, what stands in its output, and its exit code (default 0). */
export type Row = readonly [words: readonly string[], wanted: RegExp, code?: number];

export interface Command {
  readonly names: readonly string[];
  /** It has commands below it. */
  readonly isGroup: boolean;
}

/** Starts that run at the same time. */
const WORKERS = 3;
/** What no output of a working program has. */
const CRASH = /^ {4}at |is not a function|Cannot find (?:module|package)|ERR_MODULE/m;

/** Returns all commands, each group before the commands below it. */
export async function commandsOf(
  command: CommandDef,
  names: readonly string[] = [],
): Promise<readonly Command[]> {
  const below = await subCommandNames(command);
  const found = below.map(async (name) => {
    const next = await subCommandOf(command, name);
    assert.ok(next, name);
    return commandsOf(next, [...names, name]);
  });
  return [{ names, isGroup: below.length > 0 }, ...(await Promise.all(found)).flat()];
}

/** Runs the program for one command after the other, in one process: to start it for each takes most of a minute. */
const HELP = `
import { pathToFileURL } from "node:url";
const [, main, list] = process.argv;
for (const stream of [process.stdout, process.stderr]) stream.setMaxListeners(0);
for (const [at, names] of JSON.parse(list).entries()) {
  process.argv = [process.argv[0], main, ...names, "--help"];
  await import(pathToFileURL(main).href + "?" + at);
  process.stdout.write("\\0" + (process.exitCode ?? 0) + "\\0");
}`;

export interface SmokeOptions {
  /**
   * Only the first row of each first word starts the program; the others run in a process that has loaded it, since a start
   * takes more than ten commands. Not for a program that Node cannot import.
   */
  readonly isKept?: boolean;
}

export class Smoke {
  readonly installed: Installed;
  /** Commands that ran with arguments, by their names. */
  readonly ran = new Set<string>();
  readonly failures: string[] = [];
  readonly #commands: ReadonlySet<string>;
  readonly #started = new Set<string>();
  readonly #isKept: boolean;
  #kept: KeptProgram | undefined;

  constructor(installed: Installed, commands: readonly Command[], { isKept = false }: SmokeOptions = {}) {
    this.installed = installed;
    this.#isKept = isKept;
    this.#commands = new Set(commands.map(({ names }) => names.join(" ")));
  }

  /** Runs all, a few at a time; what they throw becomes a failure. */
  async all(works: readonly (() => Promise<unknown>)[]): Promise<void> {
    const queue = [...works];
    const worker = async () => {
      for (let work = queue.shift(); work; work = queue.shift()) {
        await work().catch((error: unknown) => void this.failures.push(String(error)));
      }
    };
    await Promise.all(Array.from({ length: WORKERS }, worker));
    await this.#kept?.[Symbol.asyncDispose]();
    this.#kept = undefined;
  }

  /** Returns an empty folder for AGENTD_HOME. */
  home(): Promise<string> {
    return mkdtemp(join(this.installed.elsewhere, "home-"));
  }

  /** Returns a port of this machine that nobody listens on. */
  async freePort(): Promise<number> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, "close");
    return port;
  }

  /** Runs the rows one after the other; returns the standard output of the last. */
  async run(home: string, ...rows: readonly Row[]): Promise<string> {
    let last = "";
    for (const [words, wanted, code = 0] of rows) {
      const outcome = await this.#perform(home, words);
      const text = outcome.stdout + outcome.stderr;
      const about = `agentd ${words.join(" ")} ended with ${String(outcome.code)}: ${text.slice(0, 2_000)}`;
      assert.ok(outcome.code === code, about);
      assert.ok(wanted.test(text), `${String(wanted)} is missing: ${about}`);
      assert.ok(!CRASH.test(text), about);
      this.#count(words);
      last = outcome.stdout;
    }
    return last;
  }

  /** Prints the help of each command by the program, and checks it and its exit code. */
  async help(rows: readonly (readonly [names: readonly string[], wanted: RegExp])[]): Promise<void> {
    const { program, elsewhere: cwd } = this.installed;
    const main = join(dirname(await realpath(program)), "main.mjs");
    const words = ["--input-type=module", "-e", HELP, main, JSON.stringify(rows.map(([names]) => names))];
    const env = this.installed.environment({ AGENTD_HOME: cwd });
    const { stdout, stderr } = await promisify(execFile)("node", words, { cwd, env });
    const outputs = stdout.split("\0");
    for (const [at, [names, wanted]] of rows.entries()) {
      const [text = "", code] = outputs.slice(2 * at);
      const about = `agentd ${names.join(" ")} --help ended with ${code}: ${text}${stderr}`;
      if (code !== "0" || !wanted.test(text) || CRASH.test(text + stderr)) this.failures.push(about);
    }
  }

  /** Starts a command that serves its standard input, sends a message, waits for the output, and ends the input. */
  async serve(
    home: string,
    words: readonly string[],
    [message, wanted]: readonly [object, RegExp],
  ): Promise<void> {
    const child = this.#spawn(home, words);
    const output = outputOf(child);
    child.stdin?.write(`${JSON.stringify(message)}\n`);
    await output.shows(wanted);
    child.stdin?.end();
    assert.equal(await output.code, 0, output.text());
    assert.doesNotMatch(output.text(), CRASH);
    this.#count(words);
  }

  /** Starts the gateway; resolves when it listens. */
  async gateway(home: string) {
    const words = ["gateway", "run", "--port", "0"];
    const child = this.#spawn(home, words);
    const output = outputOf(child);
    const stop = async () => {
      // By hand: Deno calls a child killed that `child.kill` was used on, however it ended.
      if (child.exitCode === null && child.signalCode === null) process.kill(child.pid ?? 0, "SIGTERM");
      return output.code;
    };
    const [, url = ""] = await output.shows(/listens on (\S+)\n/);
    this.#count(words);
    return { url, stop, [Symbol.asyncDispose]: async () => void (await stop()) };
  }

  async #perform(home: string, words: readonly string[]) {
    const [first = ""] = words;
    if (!this.#isKept || !this.#started.has(first)) {
      this.#started.add(first);
      return this.#start(home, words);
    }
    const { program, elsewhere: cwd } = this.installed;
    const env = this.installed.environment({ AGENTD_HOME: home });
    this.#kept ??= new KeptProgram({ command: commandsCommand(await realpath(program)), cwd, env });
    return this.#kept.run({ words, env });
  }

  #spawn(home: string, words: readonly string[]): ChildProcess {
    const { program, elsewhere: cwd } = this.installed;
    const env = this.installed.environment({ AGENTD_HOME: home });
    return spawn(program, words, { cwd, env, stdio: "pipe" });
  }

  #start(home: string, words: readonly string[]) {
    const { program, elsewhere: cwd } = this.installed;
    const env = this.installed.environment({ AGENTD_HOME: home });
    return new Promise<{ code: unknown; stdout: string; stderr: string }>((resolve) => {
      const child = execFile(program, words, { cwd, env, timeout: 240_000 }, (error, stdout, stderr) =>
        resolve({ code: error ? (error.code ?? error.message) : 0, stdout, stderr }),
      );
      child.stdin?.end();
    });
  }

  /** The command that the words name: the longest of their beginnings that is one. */
  #count(words: readonly string[]): void {
    if (words.includes("--help")) return;
    const names = words.map((_, at) => words.slice(0, at + 1).join(" "));
    const name = names.findLast((each) => this.#commands.has(each));
    if (name !== undefined) this.ran.add(name);
  }
}

/** What a process writes, as it comes. */
function outputOf(child: ChildProcess) {
  let text = "";
  const watchers = new Set<() => void>();
  const code = once(child, "close").then(([status]) => {
    for (const wake of watchers) wake();
    return status as number | null;
  });
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
      for (const wake of watchers) wake();
    });
  }
  return {
    code,
    text: () => text,
    async shows(wanted: RegExp): Promise<RegExpExecArray> {
      for (;;) {
        const found = wanted.exec(text);
        if (found) return found;
        assert.ok(child.exitCode === null && child.signalCode === null, `it ended: ${text}`);
        await new Promise<void>((resolve) => watchers.add(resolve));
        watchers.clear();
      }
    },
  };
}
