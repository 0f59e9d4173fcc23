/** Runs the redocly CLI, offline and quiet. Touches the machine. */
import { spawn } from "node:child_process";
import { join, resolve } from "node:path";
import process from "node:process";

export const repository: string = resolve(import.meta.dirname, "../..");

export interface Finished {
  readonly status: number;
  /** Standard output, then standard error. */
  readonly output: string;
}

/** Never rejects for a failed run: `status` and `output` report it. Runs in the repository, whose redocly.yaml it reads. */
export function runRedocly(args: readonly string[]): Promise<Finished> {
  const modules = join(repository, "node_modules");
  // The pinned Node runs it: the machine's own may be too old, and this script may be running on Deno.
  const child = spawn(join(modules, ".bin/node"), [join(modules, "@redocly/cli/bin/cli.js"), ...args], {
    cwd: repository,
    env: { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true", NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const text = { out: "", err: "" };
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text.out += chunk));
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => (text.err += chunk));
  return new Promise((done, fail) => {
    child.on("error", fail);
    child.on("close", (status) => done({ status: status ?? 1, output: `${text.out}${text.err}`.trim() }));
  });
}
