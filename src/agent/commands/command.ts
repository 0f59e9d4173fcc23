import { ServiceError } from "../../base/errors.ts";
import { nearest } from "../../base/nearest.ts";
import type { Agent } from "../agent.ts";

/** What the surface does with a command's outcome. */
export type Directive =
  /** Shows the text. With `sessionId` the surface continues in that session. */
  | { readonly type: "exec"; readonly output: string; readonly sessionId?: string }
  /** Runs another command. */
  | { readonly type: "alias"; readonly target: string }
  /** Submits a message that loads a skill. */
  | { readonly type: "skill"; readonly name: string; readonly message: string }
  /** Submits a message. `whenBusy` says what happens to it during a run. Default: as for any prompt. */
  | {
      readonly type: "send";
      readonly message: string;
      readonly notice?: string;
      readonly whenBusy?: "queue";
    }
  /** Puts a message into the input field. */
  | { readonly type: "prefill"; readonly message: string; readonly notice?: string };

export interface CommandCall {
  readonly agent: Agent;
  readonly owner: string;
  readonly sessionId?: string;
  /** The folder whose own commands apply. Default: the workspace. */
  readonly cwd?: string;
  /** The text after the name, trimmed. */
  readonly args: string;
  readonly signal?: AbortSignal;
}

export interface Command {
  /** Without the slash. */
  readonly name: string;
  readonly aliases?: readonly string[];
  readonly description: string;
  readonly category: CommandCategory;
  /** The arguments, such as `<title>`. */
  readonly hint?: string;
  readonly subcommands?: readonly string[];
  run(call: CommandCall): Promise<Directive>;
}

type CommandCategory = "Conversation" | "Session" | "Model" | "Tools" | "Help" | "Your own" | "Skills";

interface ParsedCommand {
  readonly name: string;
  readonly args: string;
}

/** Returns the current commands of one source. */
type CommandSource = (cwd?: string) => readonly Command[] | Promise<readonly Command[]>;

const MAX_ARGUMENT_CHARACTERS = 100_000;
const MAX_SHOWN_NAME = 64;

/** Parses `/name arguments`; returns undefined for other text. */
export function parseCommand(text: string): ParsedCommand | undefined {
  const match = /^\s*\/([a-z0-9][a-z0-9_-]*)(?:\s+([\s\S]*))?$/i.exec(text);
  return match ? { name: (match[1] ?? "").toLowerCase(), args: (match[2] ?? "").trim() } : undefined;
}

/**
 * The catalogue of slash commands: the built-in ones, those of the configuration, and one for each skill. The first
 * command of a name wins, and aliases count as names: a skill cannot replace `/clear`.
 */
export class Commands {
  readonly #sources: readonly CommandSource[];

  constructor(...sources: readonly CommandSource[]) {
    this.#sources = sources;
  }

  /** Returns the commands of the folder `cwd`. Default: those of the workspace. */
  async list(cwd?: string): Promise<readonly Command[]> {
    const found: Command[] = [];
    const taken = new Set<string>();
    for (const source of this.#sources) {
      const commands = (await source(cwd)).filter(({ name }) => !taken.has(name.toLowerCase()));
      for (const command of commands) {
        const name = command.name.toLowerCase();
        if (taken.has(name)) continue;
        taken.add(name);
        found.push(command);
      }
      // Adds aliases after names: an alias never hides a command of its own source.
      for (const alias of commands.flatMap(({ aliases = [] }) => aliases)) taken.add(alias);
    }
    return found;
  }

  /**
   * Returns a command by name or alias, with or without the slash. Throws ServiceError `unknown_command`, which
   * suggests a similar name.
   */
  async resolve(name: string, cwd?: string): Promise<Command> {
    const wanted = name.replace(/^\//, "").toLowerCase();
    const all = await this.list(cwd);
    const found =
      all.find((command) => command.name.toLowerCase() === wanted) ??
      all.find((command) => command.aliases?.includes(wanted) === true);
    if (found) return found;
    const names = all.flatMap((command) => [command.name, ...(command.aliases ?? [])]);
    const near = nearest(wanted, names);
    const hint = near === undefined ? "" : ` Did you mean /${near}?`;
    const shownName = wanted.length > MAX_SHOWN_NAME ? `${wanted.slice(0, MAX_SHOWN_NAME)}...` : wanted;
    throw new ServiceError(
      "unknown_command",
      `No command is named /${shownName}.${hint} /help lists the commands.`,
      { param: "command" },
    );
  }

  /**
   * Runs `/name arguments`. Throws ServiceError `command_usage` for text that is not a command, and what the command
   * throws.
   */
  async dispatch(text: string, call: Omit<CommandCall, "args">): Promise<Directive> {
    const parsed = parseCommand(text);
    if (!parsed) {
      throw new ServiceError("command_usage", "A command is a slash and a name, such as /help.", {
        param: "command",
      });
    }
    if (parsed.args.length > MAX_ARGUMENT_CHARACTERS) {
      throw new ServiceError(
        "command_usage",
        `The arguments of a command are limited to ${MAX_ARGUMENT_CHARACTERS} characters.`,
      );
    }
    const command = await this.resolve(parsed.name, call.cwd);
    return command.run({ ...call, args: parsed.args });
  }
}

/** Returns the command's session. Throws ServiceError `command_usage` without one. */
export function sessionOf(call: CommandCall, command: string): string {
  if (call.sessionId !== undefined) return call.sessionId;
  throw new ServiceError("command_usage", `/${command} needs a session. Open one first.`);
}

/** Returns ServiceError `command_usage`, which shows the syntax of a command. */
export function usage(command: Pick<Command, "name" | "hint">): ServiceError {
  return new ServiceError("command_usage", `Usage: /${command.name} ${command.hint ?? ""}`.trim());
}

export const shown = (output: string): Directive => ({ type: "exec", output });
