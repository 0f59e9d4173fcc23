/** A program that speaks JSON lines on its pipes, and what its answers take. The least that an editor does. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { bundle } from "./program.ts";
import { residentBytes } from "./usage.ts";

const NEW_LINE = 10;

export interface Answer {
  readonly result: Readonly<Record<string, unknown>>;
  /** From the request on. */
  readonly tookMs: number;
}

export interface EditorOptions {
  /** For Node. */
  readonly args: readonly string[];
  /** Where the user's home and agentd's are. */
  readonly folder: string;
  readonly home?: string;
}

export class Editor implements AsyncDisposable {
  readonly startedMs: number = performance.now();
  readonly #child;
  readonly #exited: Promise<unknown>;
  readonly #open = new Map<number, (line: string) => void>();
  #rest: Buffer[] = [];
  #next = 1;
  readonly #listeners = new Set<(line: string) => void>();

  constructor({ args, folder, home = join(folder, "agentd") }: EditorOptions) {
    this.#child = spawn(process.execPath, args, {
      env: { PATH: process.env["PATH"], HOME: folder, AGENTD_HOME: home },
      stdio: ["pipe", "pipe", "ignore"],
    });
    this.#exited = once(this.#child, "exit").then(([code]) => {
      for (const resolve of this.#open.values()) {
        resolve(JSON.stringify({ error: `${args.join(" ")} ended with ${String(code)}` }));
      }
    });
    this.#child.stdin.on("error", () => {});
    this.#child.stdout.on("data", (chunk: Buffer) => this.#take(chunk));
  }

  /** Throws when the answer is an error. */
  async call(method: string, params: object): Promise<Answer> {
    const startMs = performance.now();
    const id = this.#next++;
    const answered = new Promise<string>((resolve) => this.#open.set(id, resolve));
    this.#child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    const line = await answered;
    const tookMs = performance.now() - startMs;
    const { result, error } = JSON.parse(line) as { readonly result?: Answer["result"]; error?: unknown };
    if (!result) throw new Error(`${method}: ${JSON.stringify(error)}`);
    return { result, tookMs };
  }

  /** Called with each line that is not an answer, until what is returned is called. */
  listen(listener: (line: string) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Milliseconds from now to the next line that holds `what`. */
  noted(what: string): Promise<number> {
    const startMs = performance.now();
    return new Promise((resolve) => {
      const stop = this.listen((line) => {
        if (!line.includes(what)) return;
        stop();
        resolve(performance.now() - startMs);
      });
    });
  }

  async initialize(): Promise<Answer> {
    const clientInfo = { name: "bench", version: "0" };
    return this.call("initialize", { protocolVersion: 1, clientCapabilities: {}, clientInfo });
  }

  /** A new session; resolves to its id. */
  async session(): Promise<string> {
    const { result } = await this.call("session/new", { cwd: "/", mcpServers: [] });
    return String(result["sessionId"]);
  }

  /** Throws when the turn did not come to its end. */
  async prompt(sessionId: string, text: string): Promise<Answer> {
    const answer = await this.call("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
    const { stopReason } = answer.result;
    if (stopReason !== "end_turn") throw new Error(`the turn ended with ${String(stopReason)}`);
    return answer;
  }

  /** Memory of the process that is in RAM. */
  residentMegabytes(): number {
    return residentBytes(this.#child.pid) / 1_048_576;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.stdin.end();
    await this.#exited;
  }

  #take(chunk: Buffer): void {
    let from = 0;
    for (let at = chunk.indexOf(NEW_LINE); at !== -1; at = chunk.indexOf(NEW_LINE, from)) {
      const line = Buffer.concat([...this.#rest, chunk.subarray(from, at)]).toString();
      this.#rest = [];
      from = at + 1;
      this.#line(line);
    }
    if (from < chunk.length) this.#rest.push(chunk.subarray(from));
  }

  #line(line: string): void {
    if (/"method":"(?:session\/update|event)"/.test(line)) {
      for (const listener of this.#listeners) listener(line);
      return;
    }
    const id = Number(/"id":(\d+)/.exec(line)?.[1]);
    this.#open.get(id)?.(line);
    this.#open.delete(id);
  }
}

/** The bare agent, bundled as the program is. Resolves to the words that start it. */
export async function bundleBare(folder: string, modelUrl?: string): Promise<readonly string[]> {
  const entry = fileURLToPath(new URL("acp-bare-main.ts", import.meta.url));
  const words = [await bundle(entry, join(folder, "bare")), join(folder, "bare-code")];
  return modelUrl === undefined ? words : [...words, modelUrl];
}

/** A home whose model is the built-in one, or one at an address. */
export async function makeHome(home: string, modelUrl?: string): Promise<void> {
  await mkdir(home, { mode: 0o700 });
  const model = modelUrl
    ? `  default: paced:paced\n  providers:\n    paced: { type: openai_compatible, base_url: "${modelUrl}", models: [paced] }\n`
    : "  detect_local: false\n";
  await writeFile(join(home, "config.yaml"), `model:\n${model}sessions:\n  titles: prompt\n`, {
    mode: 0o600,
  });
}
