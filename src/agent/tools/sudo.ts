import { execFile, spawn } from "node:child_process";
import { constants } from "node:fs";
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { parseCommandLine } from "../policy/command-line.ts";
import { ToolError, type ToolContext } from "../tool.ts";

/** The environment of a command that may run sudo, and how to take it back. */
export interface SudoGrant {
  readonly env: Readonly<Record<string, string>>;
  /** Forgets the password. Call it when the command has ended. */
  end(): Promise<void>;
}

/** Calls of sudo that one command may make. */
const MAX_CALLS = 32;
const CHECK_TIMEOUT_MS = 5_000;

/** Whether sudo is one of the words of a command in the text, behind a wrapper such as env or timeout too. */
export function mentionsSudo(command: string): boolean {
  return parseCommandLine(command).commands.some(({ words }) =>
    words.some(({ text }) => text === "sudo" || text.endsWith("/sudo")),
  );
}

/**
 * Lets a command run sudo with a password that people are asked for, when sudo wants one. The password goes to sudo's
 * standard input through a pipe that has a name in a private folder: it is in no argument, no variable and no file.
 * Undefined when sudo wants none, or is not there. ToolError when nobody gives a password.
 */
export async function grantSudo(
  command: string,
  env: Readonly<Record<string, string>>,
  context: Pick<ToolContext, "questions" | "signal">,
): Promise<SudoGrant | undefined> {
  const sudo = await pathOfSudo(env);
  if (sudo === undefined || (await succeeds(sudo, ["-n", "true"], env))) return undefined;
  const password = await context.questions.sudo(command);
  if (password === undefined)
    throw new ToolError("The command needs a password for sudo, and none was given.");
  context.signal.throwIfAborted();
  return prepare({ sudo, password, env });
}

async function prepare(from: {
  readonly sudo: string;
  readonly password: string;
  readonly env: Readonly<Record<string, string>>;
}): Promise<SudoGrant> {
  const folder = await mkdtemp(join(tmpdir(), "agentd-sudo-"));
  try {
    const pipe = join(folder, "password");
    await makePipe(pipe);
    await writeFile(join(folder, "sudo"), shim(from.sudo, pipe), { mode: 0o700 });
    // Open for both, or the system would wait for a reader; what is written waits in the pipe's own memory.
    const handle = await open(pipe, constants.O_RDWR | constants.O_NONBLOCK);
    await handle.write(`${from.password}\n`.repeat(MAX_CALLS));
    return {
      env: { ...from.env, PATH: `${folder}${delimiter}${from.env["PATH"] ?? ""}` },
      end: async () => {
        await handle.close();
        await rm(folder, { recursive: true, force: true });
      },
    };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** Stands in front of the real sudo: `read` and `printf` are the shell's own, so nobody sees what passes through them. */
function shim(sudo: string, pipe: string): string {
  return [
    "#!/bin/sh",
    `if ${quote(sudo)} -n true 2>/dev/null; then exec ${quote(sudo)} -n "$@"; fi`,
    `IFS= read -r line < ${quote(pipe)}`,
    `printf '%s\\n' "$line" | ${quote(sudo)} -S -p '' "$@"`,
    "",
  ].join("\n");
}

function makePipe(path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    execFile("mkfifo", ["-m", "600", path], (error) => (error ? reject(error) : resolve()));
  });
}

function pathOfSudo(env: Readonly<Record<string, string>>): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile("/bin/sh", ["-c", "command -v sudo"], { env }, (error, stdout) =>
      resolve(error || stdout.trim() === "" ? undefined : stdout.trim()),
    );
  });
}

function succeeds(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<boolean> {
  return new Promise((resolve) => {
    const child = spawn(program, args, { env, stdio: "ignore", timeout: CHECK_TIMEOUT_MS });
    child.once("error", () => resolve(false));
    child.once("exit", (code) => resolve(code === 0));
  });
}

const quote = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;
