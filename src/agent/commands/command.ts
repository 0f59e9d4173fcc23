import { ServiceError } from "../../base/errors.ts";
import { nearest } from "../../base/nearest.ts";
import type { Agent } from "../agent.ts";

/** What the surface does with a command's outcome. */
export type Directive =
  /** Shows the text. With `sessionId` it goes on in that session. */
  | { readonly type: "exec"; readonly output: string; readonly sessionId?: string }
  /** Runs another command. */
  | { readonly type: "alias"; readonly target: string }
  /** Submits a message that loads a skill. */
  | { readonly type: "skill"; readonly name: string; readonly message: string }
  /** Submits a message. `whenBusy` is what becomes of it while a turn is at work; absent: as of any prompt. */
  | {
      readonly type: "send";
      readonly message: string;
      readonly notice?: string;
      readonly whenBusy?: "queue";
    }
  /** Puts a message where the next one is typed. */
  | { readonly type: "prefill"; readonly message: string; readonly notice?: string };

export interface CommandCall {
  readonly agent: Agent;
  readonly owner: string;
  /** Session it is about. */
  readonly sessionId?: string;
  /** Folder whose own commands count; default: the workspace. */
  readonly cwd?: string;
  /** What was typed behind the name, trimmed. */
  readonly args: string;
  readonly signal?: AbortSignal;
}

export interface Command {
  /** Without the slash. */
  readonly name: string;
  readonly aliases?: readonly string[];
  readonly description: string;
  readonly category: CommandCategory;
  /** What may stand behind the name, such as `<title>`. */
  readonly hint?: string;
  readonly subcommands?: readonly string[];
  run(call: CommandCall): Promise<Directive>;
}

type CommandCategory = "Conversation" | "Session" | "Model" | "Tools" | "Help" | "Your own" | "Skills";

interface ParsedCommand {
  readonly name: string;
  readonly args: string;
}

/** Some commands of the catalogue, as they are now. */
type CommandSource = (cwd?: string) => readonly Command[] | Promise<readonly Command[]>;

const MAX_ARGUMENT_CHARACTERS = 100_000;
const MAX_SHOWN_NAME = 64;

/** `/name arguments`; undefined for text that is no command. */
export function parseCommand(text: string): ParsedCommand | undefined {
  const match = /^\s*\/([a-z0-9][a-z0-9_-]*)(?:\s+([\s\S]*))?$/i.exec(text);
  return match ? { name: (match[1] ?? "").toLowerCase(), args: (match[2] ?? "").trim() } : undefined;
}

/**
 * The one catalogue of slash commands: built in, of the configuration, and one for each skill. The first of a name wins,
 * and an alias counts as a name: no skill takes `/clear` away from who is used to it.
 */
export class Commands {
  readonly #sources: readonly CommandSource[];

  constructor(...sources: readonly CommandSource[]) {
    this.#sources = sources;
  }

  /** Those that there are in `cwd`, a folder that may have commands of its own; default: the workspace. */
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
      // After the names: an alias never hides a command of its own source.
      for (const alias of commands.flatMap(({ aliases = [] }) => aliases)) taken.add(alias);
    }
    return found;
  }

  /** By name or alias, with or without the slash. ServiceError `unknown_command` that suggests a near one. */
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
    throw new ServiceError("unknown_command", `There is no command /${shownName}.${hint} /help lists them.`, {
      param: "command",
    });
  }

  /** Runs `/name arguments`. ServiceError `command_usage` for text that is no command, and what the command throws. */
  async dispatch(text: string, call: Omit<CommandCall, "args">): Promise<Directive> {
    const parsed = parseCommand(text);
    if (!parsed) {
      throw new ServiceError("command_usage", "A command is a slash and a name, such as /help.", {
        param: "command",
      });
    }
    if (parsed.args.length > MAX_ARGUMENT_CHARACTERS) {
      throw new ServiceError("command_usage", `A command may have ${MAX_ARGUMENT_CHARACTERS} characters.`);
    }
    const command = await this.resolve(parsed.name, call.cwd);
    return command.run({ ...call, args: parsed.args });
  }
}

/** The session a command is about. ServiceError `command_usage` when there is none. */
export function sessionOf(call: CommandCall, command: string): string {
  if (call.sessionId !== undefined) return call.sessionId;
  throw new ServiceError("command_usage", `/${command} is about a session, and none is open here.`);
}

/** ServiceError `command_usage` that shows how the command is written. */
export function usage(command: Pick<Command, "name" | "hint">): ServiceError {
  return new ServiceError("command_usage", `Usage: /${command.name} ${command.hint ?? ""}`.trim());
}

export const shown = (output: string): Directive => ({ type: "exec", output });
