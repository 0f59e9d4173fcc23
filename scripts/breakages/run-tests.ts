/** Runs tests of a copy of the checkout. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import process from "node:process";

export interface Failure {
  /** Below `test/`. */
  readonly file: string;
  readonly title: string;
  /** The file itself failed, not one of its tests. */
  readonly isWholeFile: boolean;
}

const FAILED = /^FAILED test\/(\S+?): (.*)$/gm;

/** The tests that failed, up to the first for which `isEnough` holds: the rest is not waited for then. */
export async function runTests(
  copy: string,
  files: readonly string[],
  isEnough: (failure: Failure) => boolean = () => false,
): Promise<readonly Failure[]> {
  const paths = files.map((file) => `test/${file}`);
  const output = await runNode(copy, ["scripts/test.ts", ...paths], (text) =>
    failuresIn(text).some(isEnough),
  );
  if (!/^FAILED |^\d+ passed, /m.test(output)) throw new Error(`The tests did not run:\n${output}`);
  return failuresIn(output);
}

function failuresIn(output: string): readonly Failure[] {
  return [...output.matchAll(FAILED)].map(([, file = "", title = ""]) => ({
    file,
    title,
    isWholeFile: title === `test/${file}` || title === "",
  }));
}

/** Runs a script in the copy, to its end or until `isEnough` of what it printed. */
function runNode(
  copy: string,
  args: readonly string[],
  isEnough: (output: string) => boolean,
): Promise<string> {
  // Tests killed on the way leave their files behind: where they go with the copy.
  const env = {
    ...process.env,
    NODE_COMPILE_CACHE: join(copy, ".compile-cache"),
    TMPDIR: join(copy, "../tmp"),
    AGENTD_TEST_PROGRAM: "source",
  };
  // A group of its own, so that what it starts can be ended with it.
  const child = spawn(process.execPath, args, { cwd: copy, env, detached: true });
  let output = "";
  const take = (text: string) => {
    output += text;
    if (child.exitCode === null && isEnough(output)) endGroup(child.pid);
  };
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", take);
  return new Promise((settle, reject) => {
    const interrupt = () => {
      endGroup(child.pid);
      reject(new Error("Interrupted."));
    };
    process.once("SIGINT", interrupt);
    child.once("error", reject);
    child.once("close", () => {
      process.off("SIGINT", interrupt);
      settle(output);
    });
  });
}

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It ended by itself meanwhile.
  }
}
