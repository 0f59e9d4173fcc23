/** Runs the scenarios in a program of another language, which prints one line of JSON for each. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import type { TestContext } from "node:test";
import { programEnvironment, type Command } from "../../harness/program.ts";
import { scenarios } from "./scenarios.ts";
import { openStage } from "./stage.ts";

interface ProgramOutput {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end. */
export async function runProgram(
  [file, ...words]: Command,
  { env = {}, cwd }: { readonly env?: Readonly<Record<string, string>>; readonly cwd?: string } = {},
): Promise<ProgramOutput> {
  const child = spawn(file, words, { env: programEnvironment(env), ...(cwd === undefined ? {} : { cwd }) });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const status = await new Promise<number | null>((resolve, reject) => {
    child.on("error", reject).on("close", resolve);
  });
  return { status, stdout, stderr };
}

/** Runs every scenario of the table. `command` gets the stage as JSON and the names of the scenarios. */
export async function runTable(
  context: TestContext,
  tag: string,
  command: (stage: string, names: readonly string[]) => Command,
  env: Readonly<Record<string, string>> = {},
): Promise<void> {
  await using open = await openStage(tag);
  const names = scenarios.map(({ name }) => name);
  const { status, stdout, stderr } = await runProgram(command(JSON.stringify(open.stage), names), { env });
  const outcomes = new Map(
    stdout
      .trim()
      .split("\n")
      .filter((line) => line.startsWith("{"))
      .map((line) => JSON.parse(line) as { readonly name: string; readonly outcome: unknown })
      .map(({ name, outcome }) => [name, outcome]),
  );
  for (const { name, title, outcome } of scenarios) {
    // oxlint-disable-next-line no-await-in-loop -- in the order of the table
    await context.test(`${name}: ${title}`, () => {
      assert.ok(outcomes.has(name), `${tag} printed nothing about ${name}\n${stdout}\n${stderr}`);
      assert.deepEqual(outcomes.get(name), outcome);
    });
  }
  assert.equal(status, 0, stderr);
  // What Python cannot raise it prints: a connection left open, a task nobody awaited.
  assert.doesNotMatch(
    stderr,
    /ResourceWarning|never awaited|never retrieved|was destroyed but|DATA RACE/,
    stderr,
  );
  for (const [proxy, count] of Object.entries(open.cuts())) assert.ok(count >= 2, `${proxy}: ${count} cuts`);
}
