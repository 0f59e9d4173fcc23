import { execFile, spawn } from "node:child_process";
import { constants } from "node:fs";
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { mentionsProgram } from "../../question/policy/starters.ts";
import { ToolError, type ToolContext } from "../../tool/tool.ts";

/** The environment of a command that may run sudo, and how to take it back. */
export interface SudoGrant {
  readonly env: Readonly<Record<string, string>>;
  /** Forgets the password. Call it when the command has ended. */
  end(): Promise<void>;
}

/** Calls of sudo that one command may make. */
const MAX_CALLS = 32;
/** One call's piece of the pipe: the system hands out a read of so few bytes whole. */
const RECORD_BYTES = 512;
const CHECK_TIMEOUT_MS = 5_000;

/** Whether a command in the text is sudo, behind a wrapper such as env or timeout too. */
export const mentionsSudo = (command: string): boolean => mentionsProgram(command, "sudo");

/**
 * Lets a command run sudo with a password that people are asked for, when sudo wants one. A helper hands the password to
 * sudo, when sudo asks for it, out of a pipe that has a name in a private folder: it is in no argument, no variable and
 * no file, and what the command reads is its own. Undefined when sudo wants none, or is not there. ToolError when
 * nobody gives a password.
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
  if (Buffer.byteLength(password) >= RECORD_BYTES)
    throw new ToolError("The password is longer than sudo takes.");
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
    const [pipe, helper] = [join(folder, "pipe"), join(folder, "helper")];
    await makePipe(pipe);
    await writeScript(helper, `exec dd if=${quote(pipe)} bs=${RECORD_BYTES} count=1 2>/dev/null`);
    await writeScript(join(folder, "sudo"), `exec ${quote(from.sudo)} -A "$@"`);
    // Open for both, or the system would wait for a reader; what is written waits in the pipe's own memory.
    const handle = await open(pipe, constants.O_RDWR | constants.O_NONBLOCK);
    const record = Buffer.alloc(RECORD_BYTES, "\n");
    record.write(from.password);
    await handle.write(Buffer.concat(Array.from({ length: MAX_CALLS }, () => record)));
    const path = `${folder}${delimiter}${from.env["PATH"] ?? ""}`;
    return {
      // Whoever calls sudo by its path, without the option, is led to the helper by the variable.
      env: { ...from.env, PATH: path, SUDO_ASKPASS: helper },
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

function writeScript(path: string, line: string): Promise<void> {
  return writeFile(path, `#!/bin/sh\n${line}\n`, { mode: 0o700 });
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
