/** How tests start `agentd`: the built program on Node, as people get it; the source on Deno. */
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";

const root = join(import.meta.dirname, "../..");
const source = join(root, "src/cli/main.ts");
const isDeno = "Deno" in globalThis;

/** A program and its first arguments. */
export type Command = readonly [file: string, ...words: string[]];

/**
 * Returns the command that starts `agentd`, followed by `words`. AGENTD_TEST_PROGRAM=source starts the source on Node, too.
 * Throws when the program is not built.
 */
export function agentdCommand(...words: readonly string[]): Command {
  if (isDeno || process.env["AGENTD_TEST_PROGRAM"] === "source") {
    return scriptCommand(source, ...words);
  }
  return [process.execPath, ...NURSERY, builtProgram(), ...words];
}

/**
 * Returns the command of one process that runs `agentd` for one command after the other, as {@link agentdCommand} would start
 * it: see commands.ts. With `built`, that copy of the built program on Node.
 */
export function commandsCommand(built?: string): Command {
  const script = join(import.meta.dirname, "commands.ts");
  const isSource = isDeno || process.env["AGENTD_TEST_PROGRAM"] === "source";
  if (built === undefined && isSource) return scriptCommand(script, source);
  return [isDeno ? NODE : process.execPath, ...NURSERY, script, built ?? builtProgram()];
}

/** The pinned one, for what starts on Node alone. */
const NODE = join(root, "node_modules/.bin/node");

/** A start collects no garbage then, which takes an eighth of its CPU time. */
const NURSERY = ["--min-semi-space-size=16"];

/** Returns the file of the built program: that of AGENTD_TEST_PROGRAM, or dist/agentd.mjs. Throws when it does not exist. */
export function builtProgram(): string {
  const { AGENTD_TEST_PROGRAM: named } = process.env;
  const file = named === undefined || named === "source" ? join(root, "dist/agentd.mjs") : named;
  if (!existsSync(file)) throw new Error(`${file} does not exist. Run npm run build first.`);
  return file;
}

/** Returns the command that runs a TypeScript file on the runtime of the tests. */
export function scriptCommand(file: string, ...words: readonly string[]): Command {
  return [process.execPath, ...(isDeno ? ["run", "-A", "--no-check"] : []), file, ...words];
}

/**
 * Returns the whole environment of a started program: what it needs of the machine's, and `env`. API keys and settings of
 * the machine do not reach it, and its user's home does not exist.
 */
export function programEnvironment(env: Readonly<Record<string, string>> = {}): Record<string, string> {
  const { PATH = "", TMPDIR, NODE_V8_COVERAGE } = process.env;
  return {
    PATH,
    HOME: join(tmpdir(), "agentd-no-home"),
    ...(TMPDIR === undefined ? {} : { TMPDIR }),
    ...(NODE_V8_COVERAGE === undefined ? {} : { NODE_V8_COVERAGE }),
    // Tests of the approval policy expect what holds without a sandbox; those of the sandbox switch it on.
    AGENTD_SANDBOX: "off",
    ...compileCaches(),
    ...env,
  };
}

/** Deno finds its cache through HOME unless it is told where; Node keeps nothing unless it is told where. */
function compileCaches(): Record<string, string> {
  const { DENO_DIR, NODE_COMPILE_CACHE: folder, HOME = "/tmp" } = process.env;
  if (isDeno) return { DENO_DIR: DENO_DIR ?? `${HOME}/.cache/deno` };
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: folder };
}
