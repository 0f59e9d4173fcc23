/** `agentd acp`: serves the editor that started this program on standard input and output. */
import process from "node:process";
import { defineCommand, runCommand, type ArgsDef } from "citty";
import { switchOption, textOption } from "../kit/options.ts";
import { takeStdout } from "../../base/system/frame-output.ts";
import { reportError, Shutdown } from "./process.ts";
import { UsageError } from "../kit/arguments.ts";

const IDES = ["zed", "jetbrains", "vscode", "registry", "all"] as const;
const ACTIONS = ["bootstrap", "check", "setup", "version"] as const;

const acpActions = {
  bootstrap: switchOption("Print the editor settings that start this program"),
  ide: { type: "enum", options: [...IDES], description: "For --bootstrap: the editor (default all)" },
  json: switchOption("For --bootstrap: print JSON"),
  name: textOption("name", "For --bootstrap: name of the agent in the editor (default agentd)"),
  package: textOption(
    "name",
    "For --bootstrap: the name under which you published this version on npm; adds the block for the ACP registry",
  ),
  check: switchOption("Load everything and print in one line whether editors can use it"),
  setup: switchOption("Set up a provider and a model, like `agentd setup`"),
  version: switchOption("Print the version"),
} as const satisfies ArgsDef;

export const acpCommand = defineCommand({
  meta: {
    name: "acp",
    description:
      "Serve the editor that starts this program over the Agent Client Protocol: one JSON-RPC message per line on standard input and output, until the input ends. Logs go to standard error and to the file `acp.log_file`. `agentd config get acp` shows all settings; `--bootstrap` prints the editor settings that start this program.",
  },
  args: acpActions,
  async run({ args }) {
    if (await runAcpAction(args)) return;
    // Before anything else loads: only protocol messages may reach the editor, whatever code prints.
    const output = takeStdout();
    const shutdown = new Shutdown();
    process.on("unhandledRejection", reportError);
    const { serveAcp } = await import("./serve.ts");
    await serveAcp(output, shutdown);
  },
});

interface AcpActionArgs {
  readonly bootstrap?: boolean | undefined;
  readonly ide?: string | undefined;
  readonly json?: boolean | undefined;
  readonly name?: string | undefined;
  readonly package?: string | undefined;
  readonly check?: boolean | undefined;
  readonly setup?: boolean | undefined;
  readonly version?: boolean | undefined;
}

/** Runs the action of `args`. Resolves to false without one. Throws {@link UsageError} for conflicting options. */
async function runAcpAction(args: AcpActionArgs): Promise<boolean> {
  const [action, second] = ACTIONS.filter((name) => args[name]);
  if (second !== undefined) throw new UsageError(`--${action} and --${second} exclude each other.`);
  const idle = (["ide", "json", "name", "package"] as const).find((name) => args[name]);
  if (action !== "bootstrap" && idle !== undefined) throw new UsageError(`--${idle} requires --bootstrap.`);
  switch (action) {
    case "bootstrap":
      (await import("./bootstrap.ts")).printBootstrap(args);
      return true;
    case "check":
      await (await import("./check.ts")).check();
      return true;
    case "setup":
      await (await import("./check.ts")).setUp();
      return true;
    case "version":
      await runCommand((await import("../kit/version.ts")).versionCommand, { rawArgs: [] });
      return true;
    default:
      return false;
  }
}
