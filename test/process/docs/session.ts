/** A terminal for the commands of a page: a shell with a home of its own, the built program, and one gateway. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import packageFile from "../../../package.json" with { type: "json" };
import type { Block } from "./blocks.ts";

const root = join(import.meta.dirname, "../../..");
const TIMEOUT_MS = 240_000;
/** Settings that the YAML of the pages takes from the environment. */
const SECRETS = {
  WEBHOOK_SECRET: "s".repeat(32),
  DASHBOARD_KEY: "d".repeat(32),
  REMOTE_AUTH: "r".repeat(32),
};
const prepared = join(homedir(), ".cache/agentd-python/bin/python");
const FILES: Readonly<Record<string, string>> = { js: "mjs", ts: "ts", python: "py" };

/** Why blocks in Python cannot run here; undefined when they can. */
export const pythonIsMissing = findPython() === undefined ? "Python with httpx is not installed" : undefined;

export interface Session extends AsyncDisposable {
  /** Runs a block in the shell and returns what it prints; fails when one of its commands fails. */
  run(block: Block): Promise<string>;
}

/**
 * `agentd`, where `agentd gateway` starts the gateway of the page anew and returns when it listens. It works on this
 * machine: AGENTD_URL is for the examples.
 */
const SHIM = `#!/bin/bash
unset AGENTD_URL
if [ "$1" != gateway ] || [ $# -gt 1 ]; then exec PROGRAM "$@"; fi
if [ -e "$STATE/pid" ]; then
  pid=$(cat "$STATE/pid")
  kill -TERM "$pid"
  while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
fi
exec {out}< <(exec PROGRAM gateway 2>>"$STATE/log")
echo $! >"$STATE/pid"
while IFS= read -r line <&$out; do
  printf '%s\\n' "$line"
  if [[ $line = *"listens on"* ]]; then heard=1; break; fi
done
[ -n "$heard" ] || { cat "$STATE/log"; exit 1; }
while IFS= read -r -t 5 line <&$out; do
  printf '%s\\n' "$line"
  if [[ $line = *"run: echo hello"* ]]; then break; fi
done
cat <&$out >/dev/null 2>&1 &
`;

/** Reads the paths of scripts, runs each in this shell, and prints how it ended. */
const DRIVER = `
set -E -o pipefail
trap '[[ $BASH_COMMAND = "source "* ]] || failed="\${failed}line $LINENO: $BASH_COMMAND; "' ERR
while read -r script; do
  failed=
  source "$script" >"$script.out" 2>&1 </dev/null
  printf 'ended %s\\n' "$failed"
done
`;

export interface SessionOptions {
  /** What `agentd` is, and the environment of every program of the tests. */
  readonly program: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** A gateway runs from the beginning. */
  readonly withGateway: boolean;
}

/** Opens the session of a page. */
export async function openSession(options: SessionOptions): Promise<Session> {
  const folder = await mkdtemp(join(tmpdir(), "agentd-docs-"));
  const [home, state, work] = [join(folder, "home"), join(folder, "state"), join(folder, "home/work")];
  await Promise.all([mkdir(work, { recursive: true }), mkdir(state), mkdir(join(folder, "bin"))]);
  const program = options.program.map(quote).join(" ");
  await writeFile(join(folder, "bin/agentd"), SHIM.replaceAll("PROGRAM", program), { mode: 0o755 });
  await linkPackages(join(work, "node_modules"));
  const ports = { api: await freePort(), webhook: await freePort() };
  const child = spawn("bash", ["--noprofile", "--norc", "-c", DRIVER], {
    cwd: work,
    detached: true,
    env: {
      ...options.environment,
      PATH: [join(folder, "bin"), join(root, "node_modules/.bin"), process.env["PATH"]].join(":"),
      HOME: home,
      STATE: state,
      NO_COLOR: "1",
      TZ: "UTC",
      AGENTD_PORT: String(ports.api),
      AGENTD_URL: `http://127.0.0.1:${ports.api}`,
      AGENTD_WEBHOOK_URL: `http://127.0.0.1:${ports.webhook}`,
      WEBHOOK_PORT: String(ports.webhook),
      PYTHONPATH: join(root, "generated/sdk/python"),
      PYTHONDONTWRITEBYTECODE: "1",
      ...SECRETS,
    },
  });
  const shell = shellOf(child);
  let count = 0;
  const toThisMachine = (text: string) =>
    text.replaceAll(":8642", `:${ports.api}`).replaceAll(":8644", `:${ports.webhook}`);
  const toThePage = (text: string) =>
    text.replaceAll(`:${ports.api}`, ":8642").replaceAll(`:${ports.webhook}`, ":8644").replaceAll(home, "~");
  const session: Session = {
    async run(block) {
      count += 1;
      const script = join(state, `block-${count}.sh`);
      const here = { ...block, code: toThisMachine(block.code) };
      await writeFile(script, await commandOf(here, work, count));
      const failed = await shell(script);
      const output = toThePage(await readFile(`${script}.out`, "utf8"));
      assert.equal(failed, "", `the block in line ${block.line} failed (${failed}):\n${output}`);
      return output;
    },
    async [Symbol.asyncDispose]() {
      const pid = await readFile(join(state, "pid"), "utf8").catch(() => "");
      const closed = once(child, "close");
      child.stdin.end();
      if (pid !== "") signal(Number(pid), "SIGTERM");
      await closed;
      signal(-(child.pid ?? 0), "SIGKILL");
      await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    },
  };
  if (options.withGateway)
    await session.run({
      line: 0,
      language: "sh",
      code: "agentd gateway",
      notRun: undefined,
      file: undefined,
    });
  return session;
}

/** Returns a function that runs a script in the shell; it resolves to the commands that failed. */
function shellOf(child: ReturnType<typeof spawn>): (script: string) => Promise<string> {
  let text = "";
  let wake = () => {};
  child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
    wake();
  });
  child.on("close", () => wake());
  return async (script) => {
    child.stdin?.write(`${script}\n`);
    const timer = setTimeout(() => signal(-(child.pid ?? 0), "SIGKILL"), TIMEOUT_MS);
    for (;;) {
      const found = /^ended (.*)\n/.exec(text);
      if (found) {
        clearTimeout(timer);
        text = text.slice(found[0].length);
        return (found[1] ?? "").trim();
      }
      if (child.exitCode !== null || child.signalCode !== null) {
        clearTimeout(timer);
        return `the shell ended, or the block took more than ${TIMEOUT_MS / 1000} s`;
      }
      await new Promise<void>((resolve) => (wake = resolve));
    }
  };
}

/** Writes the program of a block into `folder` where it is one, and returns what the shell runs. */
async function commandOf(block: Block, folder: string, count: number): Promise<string> {
  if (block.language === "sh") return block.code;
  if (block.file !== undefined) {
    await writeFile(join(folder, block.file), block.code);
    return ":\n";
  }
  if (block.language === "yaml") {
    const home = join(folder, `config-${count}`);
    await mkdir(home, { mode: 0o700 });
    await writeFile(join(home, "config.yaml"), block.code);
    // A page that names a model of a vendor is for readers who have a key.
    return `OPENAI_API_KEY=example AGENTD_HOME=${quote(home)} agentd config check\n`;
  }
  const file = join(folder, `block-${count}.${FILES[block.language]}`);
  await writeFile(file, block.code);
  return block.language === "python"
    ? `${quote(findPython() ?? "python3")} ${quote(file)}\n`
    : `node ${quote(file)}\n`;
}

function findPython(): string | undefined {
  const named = [process.env["AGENTD_PYTHON"], prepared, "python3"];
  return named.find((file) => file && spawnSync(file, ["-c", "import httpx"]).status === 0);
}

/** What a reader installed into the folder. */
async function linkPackages(modules: string): Promise<void> {
  await mkdir(join(modules, dirname(packageFile.name)), { recursive: true });
  await symlink(root, join(modules, packageFile.name));
  await symlink(join(root, "examples"), join(dirname(modules), "examples"));
  await symlink(join(root, "node_modules/openai"), join(modules, "openai"));
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has ended already.
  }
}

function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
