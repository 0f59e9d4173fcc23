/** `agentd acp --bootstrap`: prints the editor settings that start this program. Writes no files. */
import packageFile from "../../../package.json" with { type: "json" };
import {
  EDITORS,
  snippetLocations,
  snippets,
  type Editor,
  type SnippetOptions,
  type Launcher,
} from "../../acp/wire/snippets.ts";
import { UsageError } from "../kit/arguments.ts";
import { print, printJson } from "../kit/output.ts";
import { join } from "node:path";
import { ownProgram } from "../../base/system/own-program.ts";
import { resolveHome } from "../../config/home.ts";
import { currentContext, type CliContext } from "../kit/context.ts";

interface BootstrapOptions {
  /** An editor, or `all`. */
  readonly ide?: string | undefined;
  readonly json?: boolean | undefined;
  readonly name?: string | undefined;
}

const MAX_NAME_CHARACTERS = 64;

/** Prints the settings. Throws {@link UsageError} for an invalid name. */
export function printBootstrap({ ide = "all", json, name = packageFile.name }: BootstrapOptions): void {
  const blocks = snippets(options(nameOf(name)));
  const editors = EDITORS.filter((editor) => ide === "all" || editor === ide);
  if (json) return printJson(Object.fromEntries(editors.map((editor) => [editor, blocks[editor]])));
  print(editors.map((editor) => section(editor, blocks[editor])).join("\n"));
}

function section(editor: Editor, block: object): string {
  const { title, where } = snippetLocations[editor];
  return `${title}: ${where}\n\n${JSON.stringify(block, null, 2)}\n`;
}

function options(name: string): SnippetOptions {
  const { name: own, version, description, license } = packageFile;
  return {
    name,
    launcher: ownLauncher(),
    package: { name: own, version, description, license },
  };
}

function nameOf(text: string): string {
  const name = text.trim();
  const isShown = name !== "" && name.length <= MAX_NAME_CHARACTERS && !/\p{Cc}/u.test(name);
  if (isShown) return name;
  throw new UsageError(`--name must be a single line of at most ${MAX_NAME_CHARACTERS} characters.`);
}

export function ownLauncher(): Launcher {
  const [command = "", ...args] = ownProgram();
  return { command, args, env: homeVariables(currentContext()) };
}

/** Returns the variables for a home other than the default: editors lack the environment of the shell. */
function homeVariables({ env, userHome }: CliContext): Readonly<Record<string, string>> {
  const profile = env["AGENTD_PROFILE"];
  const home = resolveHome({ env, userHome, profile: "" });
  return {
    ...(home === join(userHome, ".agentd") ? {} : { AGENTD_HOME: home }),
    ...(profile ? { AGENTD_PROFILE: profile } : {}),
  };
}
