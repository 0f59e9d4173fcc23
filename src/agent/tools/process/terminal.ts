import { execFile, spawn } from "node:child_process";
import { constants } from "node:fs";
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { headOf, shorten, toOneLine } from "../../../base/text.ts";
import { type CommandEnd, commandEnvironment, runCommand } from "../../../exec/process-group.ts";
import { OutputExcerpt } from "../../../exec/output.ts";
import { type OpenSandbox, type SandboxService, stoppedBySandbox } from "../../../exec/sandbox/service.ts";
import { mentionsProgram } from "../../question/policy/starters.ts";
import {
  closedObject,
  flag,
  nonEmptyText,
  defineTool,
  type Tool,
  type ToolContext,
  ToolError,
  type ToolOutput,
  type ToolIntent,
} from "../../tool/tool.ts";
import { directoryOf, MAX_PATH_CHARACTERS, realPath } from "../files/paths.ts";
import type { Processes } from "./processes.ts";

export interface TerminalOptions {
  /** For calls without a timeout. */
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
  /** Names of additional environment variables that commands may see. */
  readonly envPassthrough: readonly string[];
  /** Source of the variables. Default: the environment of this process. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Runs commands in the sandbox of the operating system where there is one. Absent: they run without. */
  readonly sandbox?: TerminalSandbox;
  /** The background processes. Absent: background commands are not available. */
  readonly processes?: Processes;
}

/** What the tool needs of the sandbox; see src/exec/sandbox. */
export type TerminalSandbox = Pick<SandboxService, "isActive" | "hasNetwork" | "allows" | "open">;

interface TerminalInput {
  readonly command: string;
  readonly timeout_seconds?: number;
  readonly workdir?: string;
  readonly background?: boolean;
  readonly outside_sandbox?: boolean;
  readonly hosts?: readonly string[];
  readonly writable_folders?: readonly string[];
}

const MAX_TIMEOUT_SECONDS = 600;
const MAX_COMMAND_CHARACTERS = 100_000;
/** Limit of one call's live output. The result has its own limit. */
const MAX_LIVE_CHARACTERS = 262_144;
const TITLE_CHARACTERS = 160;

/** The tool that runs one shell command. */
export function createTerminal(options: TerminalOptions): Tool {
  const defaultSeconds = Math.ceil(options.timeoutMs / 1000);
  return defineTool<TerminalInput>({
    name: "terminal",
    toolset: "terminal",
    kind: "execute",
    description:
      "Runs a shell command and returns its exit code and output (stdout and stderr together). It runs in the " +
      "foreground without input; processes that it leaves behind are stopped. With background it keeps running: " +
      "control it with the process tool. " +
      `Output above ${options.maxOutputBytes} bytes is cut in the middle.` +
      (options.sandbox?.isActive ? SANDBOX_NOTE : ""),
    parameters: closedObject(
      {
        command: nonEmptyText(MAX_COMMAND_CHARACTERS, "The text that bash runs with -c."),
        timeout_seconds: {
          type: "number",
          exclusiveMinimum: 0,
          maximum: MAX_TIMEOUT_SECONDS,
          description: `The command is stopped after this time. Default ${defaultSeconds}, at most ${MAX_TIMEOUT_SECONDS}.`,
        },
        workdir: nonEmptyText(
          4096,
          "Directory to run in, relative to the workspace. Default: the workspace.",
        ),
        background: flag("For servers and long work: returns immediately with a process id. Default false."),
        ...(options.sandbox?.isActive ? sandboxParameters : {}),
      },
      ["command"],
    ),
    inspect: (input, { cwd }) => {
      const command =
        input.workdir === undefined ? input.command : `cd ${quote(input.workdir)} && ${input.command}`;
      const title = shorten(toOneLine(command), TITLE_CHARACTERS);
      const folder = input.workdir === undefined ? undefined : realPath(input.workdir, cwd);
      const script = folder === undefined ? {} : { script: { text: input.command, folder } };
      return {
        kind: "command",
        title: `Run: ${title}`,
        command,
        ...script,
        ...sandboxIntent(input, cwd, options),
      };
    },
    run: (input, context) => run(input, context, options),
  });
}

async function run(
  input: TerminalInput,
  context: ToolContext,
  options: TerminalOptions,
): Promise<string | ToolOutput> {
  context.signal.throwIfAborted();
  if (input.command.includes("\0")) throw new ToolError("The command contains a NUL character; remove it.");
  const cwd = await directoryOf(input.workdir ?? ".", context.cwd);
  const shared = commandEnvironment(options.envPassthrough, context.variables.shared(), options.env);
  const env = { ...shared, PWD: cwd };
  if (input.background === true) return runInBackground(input, { cwd, env, context, options });
  const timeoutMs = input.timeout_seconds === undefined ? options.timeoutMs : input.timeout_seconds * 1000;
  const excerpt = new OutputExcerpt(options.maxOutputBytes);
  const sandbox = await openSandbox(input, context, options);
  const sudo =
    !sandbox && mentionsSudo(input.command) ? await grantSudo(input.command, env, context) : undefined;
  const startedMs = performance.now();
  const end = await runCommand(input.command, {
    cwd,
    env: sudo?.env ?? env,
    timeoutMs,
    onOutput: tee(excerpt, context),
    signal: context.signal,
    confine: sandbox?.confine,
    limits: sandbox?.limits,
  }).finally(() => Promise.all([sudo?.end(), sandbox?.close()]));
  if (end.stoppedBy === "abort") throw context.signal.reason;
  const output = excerpt.text();
  const durationMs = performance.now() - startedMs;
  const hasFailed = end.exitCode !== 0 && end.hasNotRun !== true;
  const stopped = sandbox && hasFailed ? stoppedBySandbox(output, sandbox) : undefined;
  const text = report(end, output, { timeoutMs, durationMs, stopped });
  return { text, exit: exitOf(end, excerpt.omittedBytes), ...codeOf(end) };
}

function startIn(processes: Processes, options: Parameters<Processes["start"]>[0]): string {
  try {
    return processes.start(options).id;
  } catch (error) {
    void options.sandbox?.close();
    throw error;
  }
}

const sandboxParameters = {
  outside_sandbox: flag(
    "Runs the command outside the sandbox, after approval. Only when the sandbox stopped it. Default false.",
  ),
  hosts: {
    type: "array",
    maxItems: 16,
    items: { type: "string", pattern: "^(?=.{1,253}$)[a-z0-9-]+(\\.[a-z0-9-]+)*$" },
    description:
      "Hosts that the command must reach, such as registry.npmjs.org. Others than the allowed ones need approval.",
  },
  writable_folders: {
    type: "array",
    maxItems: 8,
    items: nonEmptyText(MAX_PATH_CHARACTERS, "A folder, relative to the workspace or absolute."),
    description: "Existing folders outside the workspace that the command must change, after approval.",
  },
} as const;

const SANDBOX_NOTE =
  " Commands run in a sandbox: they may change the workspace and a temporary folder, see no secrets, and reach only " +
  "allowed hosts.";

const WAY_OUT =
  "If the command must do this, call it again with the hosts in `hosts`, the folders in `writable_folders`, or " +
  "`outside_sandbox`: each asks for approval.";

/** What the policy needs to know: whether the command is contained, and which hosts and folders a person must approve. */
function sandboxIntent(
  { outside_sandbox: isOutside = false, hosts = [], writable_folders: named = [] }: TerminalInput,
  cwd: string,
  { sandbox }: TerminalOptions,
): Pick<ToolIntent, "sandbox" | "writes"> {
  if (!sandbox?.isActive || isOutside) return {};
  const asked = hosts.map((host) => host.toLowerCase()).filter((host) => !sandbox.allows(host));
  const folders = [...new Set(named.map((folder) => realPath(folder, cwd)))];
  const network = sandbox.hasNetwork || hosts.length > 0;
  if (folders.length === 0) return { sandbox: { network, hosts: asked } };
  return { sandbox: { network, hosts: asked, folders }, writes: folders };
}

function openSandbox(
  { outside_sandbox: isOutside = false, hosts = [], writable_folders: named = [] }: TerminalInput,
  { sessionId, cwd, roots = [], isPlanning, approvedPaths }: ToolContext,
  { sandbox }: TerminalOptions,
): Promise<OpenSandbox | undefined> {
  if (!sandbox || isOutside) return Promise.resolve(undefined);
  const own = [cwd, ...roots];
  if (isPlanning) return sandbox.open({ sessionId, writable: [], readable: own, hosts });
  return sandbox.open({
    sessionId,
    writable: [...own, ...openedFolders(named, { cwd, approvedPaths })],
    hosts,
  });
}

/** The folders by the names that the policy decided about: a link may lead elsewhere by now. */
function openedFolders(
  named: readonly string[],
  { cwd, approvedPaths }: Pick<ToolContext, "cwd" | "approvedPaths">,
): readonly string[] {
  const folders = named.map((folder) => realPath(folder, cwd));
  const moved = folders.find((folder) => approvedPaths !== undefined && !approvedPaths.includes(folder));
  if (moved !== undefined)
    throw new ToolError(`${moved} is not the folder that was approved. Call it again.`);
  return folders;
}

/** Long enough for immediate failures. */
const FIRST_LOOK_MS = 500;

async function runInBackground(
  input: TerminalInput,
  {
    cwd,
    env,
    context,
    options,
  }: {
    readonly cwd: string;
    readonly env: Readonly<Record<string, string>>;
    readonly context: ToolContext;
    readonly options: TerminalOptions;
  },
): Promise<string> {
  const { processes } = options;
  if (!processes) throw new ToolError("Background commands are not available here.");
  const { sessionId, signal } = context;
  const sandbox = await openSandbox(input, context, options);
  const id = startIn(processes, { sessionId, command: input.command, cwd, env, sandbox });
  await processes.wait(id, sessionId, { timeoutMs: FIRST_LOOK_MS, orOutput: true, signal });
  const { output, view } = processes.poll(id, sessionId);
  const state = view.end === undefined ? "is running in the background" : "has already ended";
  return `The process ${id} ${state}.\n${output === "" ? "No output yet." : `Output so far:\n${output}`}`;
}

function tee(excerpt: OutputExcerpt, context: ToolContext): (bytes: Uint8Array) => void {
  const decoder = new TextDecoder();
  let left = MAX_LIVE_CHARACTERS;
  return (bytes) => {
    excerpt.push(bytes);
    if (left <= 0) return;
    const text = decoder.decode(bytes, { stream: true });
    context.progress(headOf(text, left));
    left -= text.length;
  };
}

function report(
  end: CommandEnd,
  output: string,
  {
    timeoutMs,
    durationMs,
    stopped,
  }: { readonly timeoutMs: number; readonly durationMs: number; readonly stopped: string | undefined },
): string {
  if (end.hasNotRun) return `The sandbox could not be started, and the command did not run:\n${output}`;
  const seconds = (durationMs / 1000).toFixed(2);
  const how =
    end.exitCode === undefined ? `Ended by ${end.signalName ?? "a signal"}` : `Exit code ${end.exitCode}`;
  const lines = [`${how} after ${seconds} s.`];
  if (end.stoppedBy === "timeout") {
    lines.push(
      `Timed out: stopped after ${timeoutMs / 1000} s. Give timeout_seconds (at most ${MAX_TIMEOUT_SECONDS}) for ` +
        "more time, or split the work.",
    );
  }
  if (end.stoppedBy === "processes" || end.stoppedBy === "memory")
    lines.push(`Stopped: it exceeded the sandbox's limit of ${end.stoppedBy}.`);
  if (stopped !== undefined) lines.push(`The sandbox stopped ${stopped}. ${WAY_OUT}`);
  if (end.leftovers && end.stoppedBy === undefined)
    lines.push("Processes that it left in the background were stopped.");
  lines.push(output === "" ? "No output." : `Output:\n${output}`);
  return lines.join("\n");
}

function exitOf({ exitCode, signalName }: CommandEnd, omittedBytes: number): ToolOutput["exit"] {
  return {
    ...(exitCode === undefined ? {} : { code: exitCode }),
    ...(signalName === undefined ? {} : { signal: signalName }),
    omitted_bytes: omittedBytes,
  };
}

function codeOf({ exitCode, stoppedBy }: CommandEnd): Pick<ToolOutput, "code"> {
  if (stoppedBy === "timeout") return { code: "timed_out" };
  return exitCode === 0 ? {} : { code: "command_failed" };
}

/** The environment of a command that may run sudo. */
interface SudoGrant {
  readonly env: Readonly<Record<string, string>>;
  /** Deletes the password. Call it when the command has ended. */
  end(): Promise<void>;
}

/** Limit of sudo calls by one command. */
const MAX_CALLS = 32;
/** Size of one password record in the pipe: reads of this size are atomic. */
const RECORD_BYTES = 512;
const CHECK_TIMEOUT_MS = 5_000;

/** Returns whether the text runs sudo, also behind a wrapper such as env or timeout. */
export const mentionsSudo = (command: string): boolean => mentionsProgram(command, "sudo");

/**
 * Asks people for a password when sudo needs one, and lets the command run sudo with it. A helper passes the password
 * to sudo through a named pipe in a private folder, so that it appears in no argument, variable or file, and the
 * command keeps its own input. Resolves to undefined when sudo needs no password or is not installed. Throws ToolError
 * without a password.
 */
async function grantSudo(
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
    throw new ToolError("The password is longer than sudo accepts.");
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
    // Opened for reading and writing, because a writer alone would wait for a reader. The pipe's buffer holds the
    // records.
    const handle = await open(pipe, constants.O_RDWR | constants.O_NONBLOCK);
    const record = Buffer.alloc(RECORD_BYTES, "\n");
    record.write(from.password);
    await handle.write(Buffer.concat(Array.from({ length: MAX_CALLS }, () => record)));
    const path = `${folder}${delimiter}${from.env["PATH"] ?? ""}`;
    return {
      // The variable helps commands that call sudo by its path, without -A.
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
