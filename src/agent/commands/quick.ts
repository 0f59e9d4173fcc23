import { ServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe/redact.ts";
import { commandEnvironment, runCommand } from "../../exec/process-group.ts";
import { OutputExcerpt } from "../../exec/output.ts";
import { type Command, shown } from "./command.ts";

/** A command defined in the configuration. */
export interface QuickCommand {
  readonly type: "alias" | "prompt" | "exec";
  readonly value: string;
  readonly description?: string;
}

/** Runs a shell command in a directory and resolves to its output for people. */
type RunShell = (
  command: string,
  options: { readonly cwd: string; readonly signal: AbortSignal },
) => Promise<string>;

/** Returns the commands of the configuration. `runShell` runs those of type exec, without the agent. */
export function quickCommands(
  configured: Readonly<Record<string, QuickCommand>>,
  runShell: RunShell,
): readonly Command[] {
  return Object.entries(configured).map(([name, { type, value, description }]) => ({
    name,
    description: description ?? `${type}: ${value.slice(0, 80)}`,
    category: "Your own",
    ...(type === "prompt" && value.includes("{args}") ? { hint: "<args>" } : {}),
    run: async ({ agent, owner, sessionId, args, signal }) => {
      if (type === "alias") return { type: "alias", target: `/${value.replace(/^\//, "")} ${args}`.trim() };
      if (type === "prompt") return { type: "send", message: withArguments(value, args) };
      const cwd =
        sessionId === undefined ? agent.deps.settings.workspace : (await agent.status(sessionId, owner)).cwd;
      return shown(await runShell(value, { cwd, signal: signal ?? new AbortController().signal }));
    },
  }));
}

/** Replaces `{args}` by the arguments, or appends them when the text has no `{args}`. */
function withArguments(text: string, args: string): string {
  if (text.includes("{args}")) return text.replaceAll("{args}", () => args);
  return args === "" ? text : `${text}\n\n${args}`;
}

/** Returns a command for each skill that asks the agent to load it. */
export function skillCommands(
  skills: readonly { readonly name: string; readonly description: string }[],
): readonly Command[] {
  return skills.map(({ name, description }) => ({
    name,
    description,
    category: "Skills",
    hint: "[task]",
    run: async ({ args }) => ({
      type: "skill",
      name,
      message: `Load the skill ${name} with the skill tool and follow it.${args === "" ? "" : ` Task: ${args}`}`,
    }),
  }));
}

const TIMEOUT_MS = 30_000;
const MAX_OUTPUT_BYTES = 4_000;

/**
 * Returns a function that runs a configured shell command for at most 30 seconds, with at most 4,000 bytes of output.
 */
export function createRunShell(envPassthrough: readonly string[]): RunShell {
  return async (command, { cwd, signal }) => {
    const excerpt = new OutputExcerpt(MAX_OUTPUT_BYTES);
    const end = await runCommand(command, {
      cwd,
      env: { ...commandEnvironment(envPassthrough, {}), PWD: cwd },
      timeoutMs: TIMEOUT_MS,
      onOutput: (bytes) => excerpt.push(bytes),
      signal,
    }).catch(notStarted);
    if (end.stoppedBy === "abort") throw signal.reason;
    const text = redact(excerpt.text());
    if (end.stoppedBy === "timeout") return `${text}\n(stopped after ${TIMEOUT_MS / 1000} s)`.trim();
    if (end.exitCode !== 0) return `${text}\n(exit code ${end.exitCode ?? "none"})`.trim();
    return text === "" ? "(no output)" : text;
  };
}

/** Throws ServiceError `command_not_started`. Only the start of a shell can fail; everything later is output. */
export function notStarted(cause: unknown): never {
  throw new ServiceError(
    "command_not_started",
    "The command could not be started. Check that the folder of the session, or the workspace, still exists.",
    { cause },
  );
}
