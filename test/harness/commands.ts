/**
 * Runs commands of `agentd` one after the other in this process, which loads the program once for all of them. Its argument is
 * the program, each message a command, and the answer what that wrote. A command ends when it would end a process of
 * its own: when nothing that it opened keeps this one alive.
 */
import { writeSync } from "node:fs";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import type { CommandCall } from "./kept-agentd.ts";

const STREAMS = ["stdout", "stderr"] as const;
const LOOK_AGAIN_MS = 1;

const [runtime = "", , program = ""] = process.argv;
/** Runs the command that the arguments of the process name; what starts the built program checks the runtime and imports it. */
const main = pathToFileURL(program.replace(/agentd\.mjs$/, "main.mjs")).href;
const written: Record<(typeof STREAMS)[number], Buffer[]> = { stdout: [], stderr: [] };
const textOf = (name: (typeof STREAMS)[number]) => Buffer.concat(written[name]).toString();
process.setMaxListeners(0);
let calls = 0;
let atStart: ReadonlyMap<string, number> | undefined;

for (const name of STREAMS) {
  process[name].setMaxListeners(0);
  process[name].write = (chunk: string | Uint8Array, ...rest: readonly unknown[]): boolean => {
    written[name].push(Buffer.from(chunk as string));
    const done = rest.findLast((each) => typeof each === "function");
    if (done) process.nextTick(done);
    return true;
  };
}
// Of a command that ends the process itself.
process.on("exit", () => STREAMS.forEach((name, at) => writeSync(at + 1, textOf(name))));
process.on("disconnect", () => process.exit());
process.on("message", async ({ words, env }: CommandCall) => {
  for (const name of STREAMS) written[name].length = 0;
  for (const name of Object.keys(process.env)) if (!Object.hasOwn(env, name)) delete process.env[name];
  Object.assign(process.env, env);
  process.exitCode = undefined;
  process.argv = [runtime, program, ...words];
  atStart ??= openResources();
  // Only this module runs again: what it imports is loaded.
  calls += 1;
  await import(`${main}?${calls}`);
  while (isAnythingOpen(atStart)) await sleep(LOOK_AGAIN_MS);
  const [stdout, stderr] = [textOf("stdout"), textOf("stderr")];
  for (const name of STREAMS) written[name].length = 0;
  process.send?.({ code: Number(process.exitCode ?? 0), stdout, stderr });
});

function isAnythingOpen(before: ReadonlyMap<string, number>): boolean {
  return [...openResources()].some(([kind, count]) => count > (before.get(kind) ?? 0));
}

/** How many of each kind keep this process alive. */
function openResources(): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return counts;
}
