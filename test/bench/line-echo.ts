/** The least a process can do for the same exchange: for each line that comes, the line that was given to it. */
import process from "node:process";

const NEW_LINE = 10;
const answer = Buffer.from(`${process.argv[2] ?? ""}\n`);

process.stdout.write(answer);
process.stdin.on("data", (chunk: Uint8Array) => {
  for (let at = chunk.indexOf(NEW_LINE); at !== -1; at = chunk.indexOf(NEW_LINE, at + 1)) {
    process.stdout.write(answer);
  }
});
