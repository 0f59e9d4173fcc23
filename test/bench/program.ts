import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { cpuMicros, residentBytes } from "./usage.ts";

export const root: string = fileURLToPath(new URL("../../", import.meta.url));

/** What a process may take to say that it is ready, and to leave. */
const PATIENCE_MS = 60_000;
const SHOWN_CHARACTERS = 4_000;

/** The built program, which is built when there is none. AGENTD_BENCH_PROGRAM names another. */
export async function buildProgram(): Promise<string> {
  const program = process.env["AGENTD_BENCH_PROGRAM"] ?? join(root, "dist/agentd.mjs");
  if (!existsSync(program)) await wallMs([join(root, "scripts/build.ts")]);
  return program;
}

/** Wall time of a Node process with these arguments, which must end well. */
export async function wallMs(args: readonly string[]): Promise<number> {
  const startMs = performance.now();
  const child = spawn(process.execPath, args, { cwd: root, stdio: "ignore" });
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`node ${args.join(" ")} ended with ${String(code)}`);
  return performance.now() - startMs;
}

export interface SpawnOptions {
  /** For Node: a script and its arguments. */
  readonly args: readonly string[];
  /** Matches what the process prints when it is ready. */
  readonly ready: RegExp;
  readonly userHome?: string;
  readonly agentHome?: string;
  /** How the process is asked to leave. Default: by the end of its standard input. */
  readonly leavesBy?: "input" | "SIGTERM";
}

/** A process that is ready. Disposing it waits for its end, which must be a good one. */
export interface Spawned extends AsyncDisposable {
  /** From the spawn until it was ready. */
  readonly readyMs: number;
  /** What {@link SpawnOptions.ready} found. */
  readonly match: RegExpExecArray;
  cpuMicros(): number;
  residentBytes(): number;
}

/** Starts a process, and resolves when it is ready. One that is not in time is killed, as all are when the bench ends. */
export async function spawnReady(options: SpawnOptions): Promise<Spawned> {
  const startMs = performance.now();
  const started = new StartedProcess(options);
  const match = await started.ready();
  return {
    readyMs: performance.now() - startMs,
    match,
    cpuMicros: () => cpuMicros(started.child.pid),
    residentBytes: () => residentBytes(started.child.pid),
    [Symbol.asyncDispose]: () => started.leave(),
  };
}

class StartedProcess {
  readonly child: ChildProcessWithoutNullStreams;
  readonly #options: SpawnOptions;
  readonly #exited: Promise<readonly unknown[]>;
  #said = "";

  constructor(options: SpawnOptions) {
    const { args, userHome, agentHome } = options;
    this.#options = options;
    this.child = spawn(process.execPath, args, {
      env: {
        PATH: process.env["PATH"],
        ...(userHome === undefined ? {} : { HOME: userHome }),
        ...(agentHome === undefined ? {} : { AGENTD_HOME: agentHome }),
      },
    });
    const kill = () => void this.child.kill("SIGKILL");
    process.once("exit", kill);
    this.#exited = once(this.child, "exit").finally(() => process.removeListener("exit", kill));
    this.child.stdin.on("error", () => {});
  }

  /** What its output says when it is ready. */
  async ready(): Promise<RegExpExecArray> {
    const { promise, resolve, reject } = Promise.withResolvers<RegExpExecArray>();
    let found: RegExpExecArray | null = null;
    const look = (chunk: Buffer) => {
      if (found) return;
      this.#said += chunk.toString();
      found = this.#options.ready.exec(this.#said);
      if (found) resolve(found);
    };
    // Read to the end: a full pipe would stop the process.
    for (const stream of [this.child.stdout, this.child.stderr]) stream.on("data", look);
    void this.#exited.then((end) => reject(this.#error(`ended with ${end.join(" ")}`)));
    const timer = setTimeout(() => reject(this.#error("was not ready in time")), PATIENCE_MS);
    try {
      return await promise;
    } catch (error) {
      this.child.kill("SIGKILL");
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Asks it to leave, and waits for its end. */
  async leave(): Promise<void> {
    const { leavesBy = "input" } = this.#options;
    if (leavesBy === "input") this.child.stdin.end();
    else this.child.kill(leavesBy);
    const timer = setTimeout(() => this.child.kill("SIGKILL"), PATIENCE_MS);
    const [code, signal] = await this.#exited;
    clearTimeout(timer);
    if (code !== 0) throw this.#error(`ended with ${String(code ?? signal)}`);
  }

  #error(what: string): Error {
    return new Error(`${this.#options.args.join(" ")} ${what}: ${this.#said.slice(-SHOWN_CHARACTERS)}`);
  }
}

/** Key of the gateways that the benches start. */
export const GATEWAY_KEY = "bench-key-0123456789abcdef";

/** The built program's gateway. */
export interface Gateway extends Spawned {
  readonly url: string;
}

/** Starts `agentd gateway` of the built program on a free port. The first group of `ready` is its address. */
export async function startGateway(
  userHome: string,
  agentHome: string,
  ready: RegExp = /listens on (http:\S+)/,
): Promise<Gateway> {
  const spawned = await spawnReady({
    args: [await buildProgram(), "gateway", "--port", "0"],
    ready,
    userHome,
    agentHome,
    leavesBy: "SIGTERM",
  });
  return { ...spawned, url: spawned.match[1] ?? "" };
}

/** A home with this configuration. */
export async function writeHome(home: string, config: string): Promise<void> {
  await mkdir(home, { recursive: true, mode: 0o700 });
  await writeFile(join(home, "config.yaml"), config, { mode: 0o600 });
}

/** A TypeScript file and what it needs, bundled as the program is. Resolves to the script. */
export async function bundle(entry: string, outdir: string): Promise<string> {
  await build({
    entryPoints: { main: entry },
    outdir,
    bundle: true,
    splitting: true,
    minify: true,
    platform: "node",
    format: "esm",
    target: "node24",
    outExtension: { ".js": ".mjs" },
    logLevel: "warning",
  });
  return join(outdir, "main.mjs");
}
