/**
 * Runs commands of `agentd` one after the other in this process, which starts once for all of them. Its argument is a JSON
 * list of commands, each a list of words; its output is the JSON list of what each wrote.
 */
import process from "node:process";
import { runCli } from "../../src/cli/chat/run.ts";
import { rootCommand } from "../../src/cli/root.ts";
import type { Outcome } from "./agentd.ts";

const print = process.stdout.write.bind(process.stdout);
const written = { stdout: "", stderr: "" };
for (const name of ["stdout", "stderr"] as const) {
  process[name].setMaxListeners(0);
  process[name].write = (text: string | Uint8Array): boolean => {
    written[name] += typeof text === "string" ? text : new TextDecoder().decode(text);
    return true;
  };
}

const outcomes: Outcome[] = [];
for (const words of JSON.parse(process.argv[2] ?? "[]") as readonly (readonly string[])[]) {
  Object.assign(written, { stdout: "", stderr: "" });
  process.exitCode = 0;
  await runCli(rootCommand, words);
  outcomes.push({ code: Number(process.exitCode), ...written });
}
process.exitCode = 0;
print(JSON.stringify(outcomes));
