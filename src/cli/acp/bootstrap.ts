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
import { printData, printJson } from "../kit/output.ts";
import { join } from "node:path";
import { ownProgram } from "../../base/system/machine.ts";
import { resolveHome } from "../../config/home.ts";
import { currentContext, type CliContext } from "../kit/context.ts";

interface BootstrapOptions {
  /** An editor, or `all`. */
  readonly ide?: string | undefined;
  readonly json?: boolean | undefined;
  readonly name?: string | undefined;
  /** The name of the published package, which the registry starts. Without it the registry has no block. */
  readonly package?: string | undefined;
}

const MAX_NAME_CHARACTERS = 64;
/** npm's limit, with the scope. */
const MAX_PACKAGE_CHARACTERS = 214;

/** Prints the settings. Throws {@link UsageError} for an invalid name, and for the registry without a package. */
export function printBootstrap({ ide = "all", json, name = "agentd", ...own }: BootstrapOptions): void {
  const packageName = packageNameOf(own.package);
  if (ide === "registry" && packageName === undefined) {
    throw new UsageError(
      "--ide registry requires --package NAME: the name under which you published this version on npm.",
    );
  }
  const blocks = snippets(options(nameOf(name), packageName ?? packageFile.name));
  const editors = EDITORS.filter((editor) =>
    ide === "all" ? editor !== "registry" || packageName !== undefined : editor === ide,
  );
  if (json) return printJson(Object.fromEntries(editors.map((editor) => [editor, blocks[editor]])));
  printData(editors.map((editor) => section(editor, blocks[editor])).join("\n"));
}

function section(editor: Editor, block: object): string {
  const { title, where } = snippetLocations[editor];
  return `${title}: ${where}\n\n${JSON.stringify(block, null, 2)}\n`;
}

function options(name: string, packageName: string): SnippetOptions {
  const { version, description, license } = packageFile;
  return {
    name,
    launcher: ownLauncher(),
    package: { name: packageName, version, description, license },
  };
}

function nameOf(text: string): string {
  const name = text.trim();
  const isShown = name !== "" && name.length <= MAX_NAME_CHARACTERS && !/\p{Cc}/u.test(name);
  if (isShown) return name;
  throw new UsageError(`--name must be a single line of at most ${MAX_NAME_CHARACTERS} characters.`);
}

/** Accepts what npm accepts for a new package: https://docs.npmjs.com/cli/configuring-npm/package-json#name */
function packageNameOf(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const isName =
    text.length <= MAX_PACKAGE_CHARACTERS &&
    /^(@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~-][a-z0-9._~-]*$/.test(text);
  if (isName) return text;
  throw new UsageError(
    `--package must be the name of an npm package, such as ${packageFile.name}, without a version.`,
  );
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
