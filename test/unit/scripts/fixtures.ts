/** A small set of specs to run the pipeline on, and a private copy of it to break. */
import { spawn } from "node:child_process";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { TestContext } from "node:test";

const root = resolve(import.meta.dirname, "../../..");
export const fixtureSpecs: string = join(import.meta.dirname, "fixtures/specs");

/** An empty folder that goes away with the test. */
export async function makeFolder(context: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "agentd-scripts-"));
  context.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

export async function copySpecs(context: TestContext): Promise<string> {
  const folder = join(await makeFolder(context), "specs");
  await cp(fixtureSpecs, folder, { recursive: true });
  return folder;
}

/** Replaces `from` in a file; a `from` that is not there fails the test. */
export async function edit(file: string, from: string, to: string): Promise<void> {
  const text = await readFile(file, "utf8");
  if (!text.includes(from)) throw new Error(`${file} does not hold ${JSON.stringify(from)}`);
  await writeFile(file, text.replace(from, to));
}

export interface Finished {
  readonly status: number;
  readonly output: string;
}

/** Runs a file of the repository on the pinned Node. */
export function run(file: string, args: readonly string[]): Promise<Finished> {
  const child = spawn(join(root, "node_modules/.bin/node"), [join(root, file), ...args], { cwd: root });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => (output += chunk));
  }
  return new Promise((done, fail) => {
    child.on("error", fail);
    child.on("close", (status) => done({ status: status ?? 1, output }));
  });
}
