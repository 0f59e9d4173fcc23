/** A gateway on standard input and output with the fault that the first argument names; the rest is the command of a real one. */
import { spawn } from "node:child_process";
import process from "node:process";
import { createInterface } from "node:readline";

const [fault = "", command = "", ...words] = process.argv.slice(2);
const child = spawn(command, words, { stdio: ["pipe", "pipe", "inherit"] });
process.stdin.pipe(child.stdin);
child.on("exit", (code) => process.exit(code ?? 1));
const frames = createInterface({ input: child.stdout });
let isFirst = true;
frames.on("line", (line) => {
  const changed = change(line);
  isFirst = false;
  if (changed !== "") process.stdout.write(`${changed}\n`);
});

function change(line: string): string {
  if (fault === "no-ready") return isFirst ? "" : line;
  if (fault === "lost-event") return line.includes('"seq":3,') ? "" : line;
  if (fault === "other-code") return line.replace('"code":-32601', '"code":-32000');
  if (fault === "lost-delta")
    return line.includes('"message.delta"') && /"seq":[4-6],/.test(line) ? "" : line;
  if (fault === "twice") return line.includes('"result"') ? `${line}\n${line}` : line;
  if (fault === "no-error-id") return line.replace(/"id":"a"/, '"id":null');
  return line;
}
