/** Finds the command that was meant, checks its words, runs it, and says how it went. */
import process from "node:process";
import { runCommand, type CommandDef } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { suggest } from "../../base/suggest.ts";
import { warn } from "../kit/output.ts";
import { normalizeArguments, findFirstArgument, UsageError } from "../kit/arguments.ts";
import {
  argsHere,
  argsOf,
  defaultOf,
  subCommandNames,
  subCommandOf,
  TARGET_ARGS,
  usageLine,
  worksOnServers,
} from "../kit/command.ts";

export const EXIT_FAILURE = 1;
const EXIT_USAGE = 2;

interface Found {
  readonly command: CommandDef;
  /** How it was reached: `agentd config set`. */
  readonly names: readonly string[];
  readonly words: readonly string[];
}

/**
 * Runs what `words` ask for and sets the process's exit code: 0, 1 for a failure (one message on stderr, no stack), 2 for
 * a mistake in the words (with the usage line on stderr). A command may set `process.exitCode` itself.
 */
export async function runCli(root: CommandDef, words: readonly string[]): Promise<void> {
  process.stdout.on("error", leaveQuietly);
  process.stderr.on("error", sayNoMore);
  let found: Found = { command: root, names: ["agentd"], words };
  try {
    found = { ...found, words: await takeProfile(words) };
    for (let next: Found | undefined = found; next; next = await descend(found)) found = next;
    if (wantsHelp(found.words))
      return await (await import("../help/help.ts")).printUsage(found.command, found.names);
    await start(found);
  } catch (error) {
    process.exitCode = await report(error, found);
  }
}

/** The output has no reader: a closed pipe, or a terminal that is gone. */
const isUnread = ({ code }: NodeJS.ErrnoException): boolean => code === "EPIPE" || code === "EIO";

/** The reader, such as `head`, has seen enough: not an error. */
function leaveQuietly(error: NodeJS.ErrnoException): void {
  if (!isUnread(error)) throw error;
  process.exit();
}

/** What is said beside the output is lost, and the output continues. */
function sayNoMore(error: NodeJS.ErrnoException): void {
  if (!isUnread(error)) throw error;
}

async function start(found: Found): Promise<void> {
  const { command, words } = found;
  if ((await subCommandNames(command)).length > 0) {
    const first = await defaultOf(command);
    if (!first) throw new UsageError("Name a command.");
    return start({ command: first, names: found.names, words });
  }
  await runCommand(command, { rawArgs: await argumentsOf(found) });
}

/** Commands that mean this machine, whatever server other commands work on. */
const ALWAYS_HERE: ReadonlySet<string | undefined> = new Set(
  "gateway rpc acp chat open context mock conformance spec completion help version".split(" "),
);

/** Why a command cannot work on a server, where its name does not say so. */
const WHY_HERE: ReadonlyMap<string, string> = new Map([
  [
    "restore",
    "It replaces the home, which nothing may use meanwhile. POST /v1/backup/import makes a server do it at its next start. ",
  ],
  ["cron tick", "The gateway of a server starts its jobs itself. "],
]);

/** Returns the words without those that choose a server. UsageError for a server where the command cannot work. */
async function argumentsOf({ command, names, words }: Found): Promise<string[]> {
  const args = await argsOf(command);
  if (ALWAYS_HERE.has(names[1])) return normalizeArguments(words, args);
  const { takeTarget, currentTarget } = await import("../kit/target.ts");
  const own = takeTarget(normalizeArguments(words, { ...TARGET_ARGS, ...args }), args);
  if (worksOnServers(command)) return own;
  const target = await currentTarget();
  if (target === undefined) return own;
  const server = target.context === undefined ? target.url : `the context ${target.context}`;
  const why = WHY_HERE.get(names.slice(1).join(" ")) ?? "";
  throw new UsageError(
    `\`${names.join(" ")}\` works on this machine only, not on ${server}. ${why}Pass --context local.`,
  );
}

/** One command further down, when the next word names one; undefined when `found` is the one to run. */
async function descend({ command, names, words }: Found): Promise<Found | undefined> {
  const known = await subCommandNames(command);
  if (known.length === 0) return undefined;
  const args = await argsHere(command);
  const at = findFirstArgument(words, { ...TARGET_ARGS, ...args });
  const name = words[at];
  if (name === undefined) return undefined;
  const next = await subCommandOf(command, name);
  if (next) return { command: next, names: [...names, name], words: words.toSpliced(at, 1) };
  // Behind an option that is not known, the word may be its value: then the option is what is wrong.
  if (at > 0 && (await defaultOf(command))) normalizeArguments(words.slice(0, at), args);
  throw new UsageError(`Unknown command ${JSON.stringify(name)}${suggest(name, known)}`);
}

/**
 * `--profile NAME` may stand anywhere before `--`. It becomes AGENTD_PROFILE, so that it also holds for the processes
 * that the command starts. ServiceError `invalid_config` for an invalid name.
 */
async function takeProfile(words: readonly string[]): Promise<readonly string[]> {
  const end = words.indexOf("--");
  const at = words.findIndex((word, index) => (end < 0 || index < end) && /^--profile(=|$)/.test(word));
  const word = words[at];
  if (word === undefined) return words;
  const value = word.includes("=") ? word.slice("--profile=".length) : words[at + 1];
  if (!value || value.startsWith("-")) throw new UsageError("--profile needs a name.");
  process.env["AGENTD_PROFILE"] = value;
  // Refuses an invalid name, also for commands that do not use the home.
  (await import("../kit/context.ts")).currentContext();
  return words.toSpliced(at, word.includes("=") ? 1 : 2);
}

function wantsHelp(words: readonly string[]): boolean {
  const end = words.indexOf("--");
  return words.slice(0, end < 0 ? words.length : end).some((word) => word === "--help" || word === "-h");
}

async function report(error: unknown, { command, names }: Found): Promise<number> {
  if (error instanceof UsageError) {
    // Three lines: the whole help would push the reason off the screen.
    const usage = await usageLine(command, names);
    warn(`${error.message}\n${usage}\nTry \`${names.join(" ")} --help\`.`);
    return EXIT_USAGE;
  }
  if (error instanceof ServiceError) {
    warn(error.message);
    return EXIT_FAILURE;
  }
  // A bug: its stack is what helps.
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  return EXIT_FAILURE;
}
