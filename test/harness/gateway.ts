/** `agentd gateway` as a process of its own, started as tests start it. */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { agentdCommand, programEnvironment } from "./program.ts";
import { createTestDatabase } from "./store.ts";

export interface GatewayPlace extends AsyncDisposable {
  readonly home: string;
  readonly database: string;
  /** Starts the gateway here; more than one after the other, or at once. Default: on any free port. */
  start(port?: number): Promise<GatewayProcess>;
  /** The key of the first start. */
  key(): Promise<string>;
}

export interface GatewayProcess {
  readonly url: string;
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** Sends the signal and waits for the end. Resolves to the exit code, null after a signal's death. */
  kill(signal: NodeJS.Signals): Promise<number | null>;
}

/** A home and a database that outlive the processes started on them. */
export async function createGatewayPlace(env: Readonly<Record<string, string>> = {}): Promise<GatewayPlace> {
  const home = await mkdtemp(join(tmpdir(), "agentd-home-"));
  const database = await createTestDatabase();
  const children = new Set<ChildProcess>();
  return {
    home,
    database: database.url,
    start: (port = 0) => {
      const own = { AGENTD_HOME: home, AGENTD_DATABASE_URL: database.url };
      return startGateway(children, { ...own, ...env }, port);
    },
    key: async () => /^API_SERVER_KEY=(.+)$/m.exec(await readFile(join(home, ".env"), "utf8"))![1]!,
    async [Symbol.asyncDispose]() {
      await Promise.all([...children].map((child) => end(child, "SIGKILL")));
      await database.drop();
      await rm(home, { recursive: true, force: true });
    },
  };
}

async function startGateway(
  children: Set<ChildProcess>,
  env: Readonly<Record<string, string>>,
  port: number,
): Promise<GatewayProcess> {
  const [file, ...words] = agentdCommand("gateway", "--port", String(port));
  const child = spawn(file, words, { env: programEnvironment(env), stdio: ["ignore", "pipe", "pipe"] });
  children.add(child);
  child.once("exit", () => children.delete(child));
  const output = { stdout: "", stderr: "" };
  child.stderr!.on("data", (bytes: Uint8Array) => (output.stderr += bytes.toString()));
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout!.on("data", (bytes: Uint8Array) => {
      output.stdout += bytes.toString();
      const match = /listens on (\S+)\n[\s\S]*try/.exec(output.stdout);
      if (match) resolve(match[1]!);
    });
    child.once("exit", (code) => reject(new Error(`the gateway ended with ${code}: ${output.stderr}`)));
  });
  return {
    url,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    kill: (signal) => end(child, signal),
  };
}

function end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode);
  return new Promise((resolve) => {
    child.once("exit", (code) => resolve(code));
    // Deno calls a child that child.kill() was used on killed, however it ended; so the signal is sent by hand.
    process.kill(child.pid!, signal);
  });
}
