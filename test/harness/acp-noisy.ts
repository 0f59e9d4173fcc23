/** `agentd acp` with things in it that print: started by tests. */
import process from "node:process";
import { runCommand } from "citty";
import { acpCommand } from "../../src/cli/acp/acp.ts";

const served = runCommand(acpCommand, { rawArgs: [] });
setInterval(() => {
  for (const name of ["log", "info", "debug", "dir", "dirxml", "table", "group", "count", "clear"] as const) {
    console[name]("from the console");
  }
  console.groupEnd();
  process.stdout.write("from the stream\n");
}, 1);
await served;
