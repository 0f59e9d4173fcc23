/** `agentd acp`: the agent for the editor that started this program, on standard input and output. */
import process from "node:process";
import { defineCommand, runCommand, type ArgsDef } from "citty";
import { takeStdout } from "../../base/system/frame-output.ts";
import { reportFault, Leaving } from "./process.ts";
import { keepCompiledCode } from "../kit/runtime.ts";
import { currentContext } from "../kit/context.ts";
import { UsageError } from "../kit/arguments.ts";

const IDES = ["zed", "jetbrains", "vscode", "registry", "all"] as const;
const ACTIONS = ["bootstrap", "check", "setup", "version"] as const;

export const acpActions = {
  bootstrap: { type: "boolean", description: "Print what editors need to start this program, and end" },
  ide: { type: "enum", options: [...IDES], description: "For --bootstrap: which editor (default all)" },
  json: { type: "boolean", description: "For --bootstrap: print one JSON object" },
  name: {
    type: "string",
    valueHint: "name",
    description: "For --bootstrap: what editors call it (default agentd)",
  },
  check: { type: "boolean", description: "Load everything, say in a line whether editors can work with it" },
  setup: { type: "boolean", description: "Set up a provider and a model, as `agentd setup` does" },
  version: { type: "boolean", description: "Print the version" },
} as const satisfies ArgsDef;

export const acpCommand = defineCommand({
  meta: {
    name: "acp",
    description:
      "Serve an editor (Agent Client Protocol) that starts this program: one JSON-RPC message a line on standard input and output, until the input ends. Logs go to standard error, and to the file `acp.log_file` of the configuration; `agentd config get acp` shows its other settings. `--bootstrap` prints what editors need to start it.",
  },
  args: acpActions,
  async run({ args }) {
    if (await runAcpAction(args)) return;
    // Before anything else is loaded: whatever prints, messages alone reach the editor.
    const output = takeStdout();
    const disconnected = new Leaving();
    process.on("unhandledRejection", reportFault);
    keepCode();
    const { serveAcp } = await import("./serve.ts");
    await serveAcp(output, disconnected);
  },
});

/** A profile that is not allowed is told to the editor, by the answer to what needs it. */
function keepCode(): void {
  try {
    keepCompiledCode(currentContext().home);
  } catch {
    // It starts slower.
  }
}

export interface AcpActionArgs {
  readonly bootstrap?: boolean | undefined;
  readonly ide?: string | undefined;
  readonly json?: boolean | undefined;
  readonly name?: string | undefined;
  readonly check?: boolean | undefined;
  readonly setup?: boolean | undefined;
  readonly version?: boolean | undefined;
}

/** Does what `args` ask for; false when that is to serve. Throws {@link UsageError} for words that do not go together. */
export async function runAcpAction(args: AcpActionArgs): Promise<boolean> {
  const [action, second] = ACTIONS.filter((name) => args[name]);
  if (second !== undefined) throw new UsageError(`Give either --${action} or --${second}.`);
  const idle = (["ide", "json", "name"] as const).find((name) => args[name]);
  if (action !== "bootstrap" && idle !== undefined) throw new UsageError(`--${idle} goes with --bootstrap.`);
  switch (action) {
    case "bootstrap":
      (await import("./bootstrap.ts")).printBootstrap(args);
      return true;
    case "check":
      await (await import("./check.ts")).check();
      return true;
    case "setup":
      await (await import("./setup.ts")).setUp();
      return true;
    case "version":
      await runCommand((await import("../kit/version.ts")).versionCommand, { rawArgs: [] });
      return true;
    default:
      return false;
  }
}
