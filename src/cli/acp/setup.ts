/** `agentd acp --setup`, which editors run in a terminal: the setup, with an exit code they know. */
import process from "node:process";
import { runCommand } from "citty";
import { UsageError } from "../kit/arguments.ts";
import { warn } from "../kit/output.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { setupCommand } from "../setup/setup.ts";

/** Exit code 0: a provider is set up. 1: it is not. */
export async function setUp(): Promise<void> {
  try {
    await runCommand(setupCommand, { rawArgs: [] });
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    warn(`${error.message} These are options of \`agentd setup\`.`);
    process.exitCode = EXIT_FAILURE;
  }
}
