import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { buildProgram } from "./program.ts";
import { median, runAlone, type BenchRow } from "./row.ts";

const IN_FLIGHT = [1, 16];
const ROUNDS = 5;
const ROUND_MS = 2_000;
const NEW_LINE = 10;
const echo = fileURLToPath(new URL("line-echo.ts", import.meta.url));

/** Calls on a pipe against a process that answers each line with the same bytes and does nothing else. */
export async function run(): Promise<readonly BenchRow[]> {
  const program = await buildProgram();
  const home = await mkdtemp(join(tmpdir(), "agentd-bench-"));
  try {
    await using service = await Lines.start([program, "rpc"], home);
    const session = JSON.parse(await service.call(toCall("session.create", {})));
    const request = toCall("session.usage", { session_id: session.result.session_id });
    const answer = await service.call(request);
    if (!answer.includes('"result"')) throw new Error(`session.usage was answered ${answer}`);
    await using bare = await Lines.start([echo, answer], home);
    const rows: BenchRow[] = [];
    for (const inFlight of IN_FLIGHT)
      rows.push(await compare({ service, bare }, { request, answer }, inFlight));
    return rows;
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}

interface Exchange {
  readonly request: string;
  readonly answer: string;
}

async function compare(
  { service, bare }: { readonly service: Lines; readonly bare: Lines },
  exchange: Exchange,
  inFlight: number,
): Promise<BenchRow> {
  for (const each of [service, bare]) await each.round(exchange, inFlight);
  const ours: number[] = [];
  const control: number[] = [];
  for (let i = 0; i < ROUNDS; i++) {
    ours.push(await service.round(exchange, inFlight));
    control.push(await bare.round(exchange, inFlight));
  }
  const [value, bareRate] = [median(ours), median(control)];
  const ratio = value / bareRate;
  const name = `session.usage on stdio, ${inFlight} in flight`;
  return {
    name,
    value,
    unit: "requests/s",
    control: bareRate,
    ratio,
    goal: ">= 0.7x",
    met: ratio >= 0.7,
  };
}

function toCall(method: string, params: object): string {
  return JSON.stringify({ jsonrpc: "2.0", id: "r1", method, params });
}

/** A process that answers a line with a line. */
class Lines implements AsyncDisposable {
  readonly #child;
  readonly #exited: Promise<unknown>;
  readonly #gone: Promise<never>;
  #text = "";
  #bytes = 0;
  #onLine: () => void = () => {};

  private constructor(args: readonly string[], home: string) {
    this.#child = spawn(process.execPath, args, {
      env: { PATH: process.env["PATH"], HOME: home, AGENTD_HOME: join(home, "agentd") },
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#exited = once(this.#child, "exit");
    this.#gone = this.#exited.then(() => Promise.reject(new Error(`${args.join(" ")} ended`)));
    this.#gone.catch(() => {});
    this.#child.stdout.on("data", (chunk: Uint8Array) => this.#take(chunk));
  }

  /** Resolves when it said its first line. */
  static async start(args: readonly string[], home: string): Promise<Lines> {
    const lines = new Lines(args, home);
    await lines.#next();
    return lines;
  }

  async call(request: string): Promise<string> {
    const answered = this.#next();
    this.#child.stdin.write(`${request}\n`);
    await Promise.race([answered, this.#gone]);
    return this.#text.trimEnd().split("\n").at(-1) ?? "";
  }

  /** Answers a second, with `inFlight` requests always under way; each must be as long as the one before. */
  async round({ request, answer }: Exchange, inFlight: number): Promise<number> {
    const bytes = Buffer.from(`${request}\n`);
    const { promise, resolve } = Promise.withResolvers<void>();
    const startMs = performance.now();
    let answers = 0;
    let waiting = inFlight;
    this.#bytes = 0;
    this.#onLine = () => {
      answers += 1;
      if (performance.now() - startMs < ROUND_MS) return void this.#child.stdin.write(bytes);
      waiting -= 1;
      if (waiting === 0) resolve();
    };
    for (let i = 0; i < inFlight; i++) this.#child.stdin.write(bytes);
    await Promise.race([promise, this.#gone]);
    const wanted = answers * (Buffer.byteLength(answer) + 1);
    if (this.#bytes !== wanted) throw new Error(`${answers} answers had ${this.#bytes} bytes, not ${wanted}`);
    return answers / ((performance.now() - startMs) / 1_000);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.stdin.end();
    await this.#exited;
  }

  #next(): Promise<void> {
    return new Promise((resolve) => (this.#onLine = resolve));
  }

  #take(chunk: Uint8Array): void {
    this.#text = Buffer.from(chunk).toString();
    this.#bytes += chunk.length;
    for (let at = chunk.indexOf(NEW_LINE); at !== -1; at = chunk.indexOf(NEW_LINE, at + 1)) this.#onLine();
  }
}

await runAlone(import.meta.url, run);
