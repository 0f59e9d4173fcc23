/** `agentd acp`: the agent for the editor that started this program, on standard input and output. */
import process from "node:process";
import { defineCommand } from "citty";
import { takeStdout } from "../../base/system/frame-output.ts";
import { acpActions, runAcpAction } from "./actions.ts";
import { reportFault } from "./fault.ts";
import { Leaving } from "./shutdown.ts";
import { keepCompiledCode } from "../kit/compiled-code.ts";
import { currentContext } from "../kit/context.ts";

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
