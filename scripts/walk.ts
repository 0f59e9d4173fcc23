/**
 * node scripts/walk.ts [ACT] [--files]: how many files of `src` one warm act runs through, by module, with the goal of
 * each act. The program runs from source under the inspector; an act is played once to warm up. Then the files count that
 * run each time it is played again, so that what a timer happens to run meanwhile does not count.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";

const root = resolve(import.meta.dirname, "..");
const sources = `${pathToFileURL(join(root, "src"))}/`;
const KEY = "walk-key-0123456789abcdef";
const SECRET = "walk-secret-0123456789abcdef";
const TIMEOUT_MS = 60_000;

interface Act {
  readonly name: string;
  readonly goal: number;
  /** Starts what the act needs and resolves to the act itself, which resolves when it is over. */
  prepare(program: Program): Promise<() => Promise<void>>;
  readonly words: readonly string[];
}

const acts: readonly Act[] = [
  { name: "HTTP chat stream", goal: 40, words: ["gateway", "--port", "0"], prepare: prepareChat },
  {
    name: "gateway prompt over WebSocket",
    goal: 45,
    words: ["gateway", "--port", "0"],
    prepare: prepareSocket,
  },
  { name: "ACP prompt", goal: 45, words: ["acp"], prepare: prepareAcp },
  { name: "cron tick to Telegram", goal: 55, words: ["gateway", "--port", "0"], prepare: prepareCron },
  { name: "webhook to Telegram", goal: 60, words: ["gateway", "--port", "0"], prepare: prepareWebhook },
];

async function main(): Promise<void> {
  const chosen = process.argv.slice(2).filter((word) => !word.startsWith("--"));
  const listsFiles = process.argv.includes("--files");
  for (const act of acts) {
    if (chosen.length > 0 && !chosen.some((word) => act.name.toLowerCase().includes(word.toLowerCase())))
      continue;
    const files = await walk(act);
    console.log(`${String(files.length).padStart(4)} of ${act.goal}  ${act.name}  (${byModule(files)})`);
    if (listsFiles) console.log(files.map((file) => `        ${file}`).join("\n"));
  }
}

/** How often an act is counted. */
const PLAYS = 3;

/** Returns the files of `src` that every warm play runs through, in the order of their names. */
async function walk(act: Act): Promise<readonly string[]> {
  await using telegram = await startTelegram();
  await using program = await Program.start(act.words, telegram);
  const play = await act.prepare(program);
  await play();
  await program.takeFiles();
  let files: readonly string[] | undefined;
  for (let played = 0; played < PLAYS; played++) {
    await play();
    const ran = new Set(await program.takeFiles());
    files = files === undefined ? [...ran] : files.filter((file) => ran.has(file));
  }
  return files ?? [];
}

function byModule(files: readonly string[]): string {
  const counts = Map.groupBy(files, (file) => file.split("/")[0] ?? "");
  const ordered = [...counts].sort(([, a], [, b]) => b.length - a.length);
  return ordered.map(([module, { length }]) => `${module} ${length}`).join(", ");
}

/** The program in a home of its own, with a session of the inspector. */
class Program implements AsyncDisposable {
  readonly child: ChildProcess;
  readonly telegram: Telegram;
  readonly output: Transcript;
  readonly #home: string;
  readonly #socket: WebSocket;
  readonly #answers = new Map<number, (result: CoverageResult) => void>();
  readonly #ended: Promise<unknown>;
  #lastId = 0;

  private constructor(
    from: Pick<Program, "child" | "telegram" | "output"> & { home: string; socket: WebSocket },
  ) {
    this.child = from.child;
    this.#ended = once(from.child, "exit");
    this.telegram = from.telegram;
    this.output = from.output;
    this.#home = from.home;
    this.#socket = from.socket;
    this.#socket.addEventListener("message", ({ data }) => {
      const { id, result } = JSON.parse(String(data)) as { id?: number; result: CoverageResult };
      if (id !== undefined) this.#answers.get(id)?.(result);
    });
  }

  static async start(words: readonly string[], telegram: Telegram): Promise<Program> {
    const home = await mkdtemp(join(tmpdir(), "agentd-walk-"));
    await writeFile(join(home, "config.yaml"), JSON.stringify(configuration(telegram.url)));
    const child = spawn(
      process.execPath,
      ["--inspect=127.0.0.1:0", join(root, "src/cli/main.ts"), ...words],
      { env: environment(home), stdio: ["pipe", "pipe", "pipe"] },
    );
    const output = new Transcript(child.stdout);
    const inspector = await new Transcript(child.stderr).find(/Debugger listening on (ws:\S+)/);
    const socket = new WebSocket(inspector);
    await once(socket, "open");
    const program = new Program({ child, telegram, output, home, socket });
    await program.#call("Profiler.enable");
    await program.#call("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
    return program;
  }

  /** The files whose functions ran since the last call. */
  async takeFiles(): Promise<readonly string[]> {
    const { result } = await this.#call("Profiler.takePreciseCoverage");
    const ran = result.filter(({ url, functions }) => url.startsWith(sources) && functions.some(hasRun));
    return ran.map(({ url }) => decodeURIComponent(url.slice(sources.length))).sort();
  }

  /** Runs another command in the same home; resolves to what it prints. */
  async command(...words: readonly string[]): Promise<string> {
    const child = spawn(process.execPath, [join(root, "src/cli/main.ts"), ...words], {
      env: environment(this.#home),
      stdio: ["ignore", "pipe", "inherit"],
    });
    let output = "";
    for await (const chunk of child.stdout) output += String(chunk);
    if (child.exitCode === null) await once(child, "exit");
    if (child.exitCode !== 0) throw new Error(`agentd ${words.join(" ")} failed: ${output}`);
    return output;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.close();
    this.child.kill("SIGKILL");
    await this.#ended;
    await rm(this.#home, { recursive: true, force: true });
  }

  #call(method: string, params: object = {}): Promise<CoverageResult> {
    const id = ++this.#lastId;
    const { promise, resolve: answer } = Promise.withResolvers<CoverageResult>();
    this.#answers.set(id, answer);
    this.#socket.send(JSON.stringify({ id, method, params }));
    return promise;
  }
}

interface CoverageResult {
  readonly result: readonly { readonly url: string; readonly functions: readonly CoveredFunction[] }[];
}

interface CoveredFunction {
  readonly functionName: string;
  readonly ranges: readonly { readonly startOffset: number; readonly count: number }[];
}

/** The body of a module counts as a function without a name that begins at 0: loading a file is not running it. */
function hasRun({ functionName, ranges: [range] }: CoveredFunction): boolean {
  return range !== undefined && range.count > 0 && !(functionName === "" && range.startOffset === 0);
}

function configuration(telegramUrl: string): object {
  return {
    platforms: {
      telegram: { base_url: telegramUrl, token: "12345:walk", home_channel: "42" },
      webhook: {
        enabled: true,
        port: 0,
        secret: SECRET,
        routes: { issues: { prompt: "An issue was opened: {issue.title}", deliver: "telegram:42" } },
      },
    },
  };
}

function environment(home: string): NodeJS.ProcessEnv {
  const { PATH, HOME } = process.env;
  return { PATH, HOME, AGENTD_HOME: home, API_SERVER_KEY: KEY, NODE_NO_WARNINGS: "1" };
}

async function prepareChat(program: Program): Promise<() => Promise<void>> {
  const url = await gatewayUrl(program);
  return async () => {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
      body: JSON.stringify({ stream: true, messages: [{ role: "user", content: "hello" }] }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const text = await response.text();
    if (!text.includes("[DONE]")) throw new Error(`the chat did not end: ${text}`);
  };
}

async function prepareSocket(program: Program): Promise<() => Promise<void>> {
  const url = await gatewayUrl(program);
  const peer = new Peer();
  const socket = new WebSocket(`${url.replace(/^http/, "ws")}/api/ws?token=${KEY}`);
  socket.addEventListener("message", ({ data }) => peer.take(String(data)));
  await once(socket, "open");
  const send = (text: string) => socket.send(text);
  const { session_id: sessionId } = (await peer.request(send, "session.create", {})) as {
    session_id: string;
  };
  return async () => {
    const done = peer.next(({ params }) => params?.["type"] === "message.complete");
    await peer.request(send, "prompt.submit", { session_id: sessionId, text: "hello" });
    await done;
  };
}

async function prepareAcp({ child }: Program): Promise<() => Promise<void>> {
  const peer = new Peer();
  let rest = "";
  child.stdout?.on("data", (chunk) => {
    const lines = `${rest}${String(chunk)}`.split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) peer.take(line);
  });
  const send = (text: string) => void child.stdin?.write(`${text}\n`);
  await peer.request(send, "initialize", { protocolVersion: 1, clientCapabilities: {} });
  const opened = await peer.request(send, "session/new", { cwd: tmpdir(), mcpServers: [] });
  const { sessionId } = opened as { sessionId: string };
  return async () => {
    await peer.request(send, "session/prompt", { sessionId, prompt: [{ type: "text", text: "hello" }] });
  };
}

async function prepareCron(program: Program): Promise<() => Promise<void>> {
  await gatewayUrl(program);
  const created = await program.command("cron", "create", "every 1d", "hello", "--deliver", "telegram:42");
  const id = /[0-9a-f]{12}/.exec(created)?.[0];
  if (id === undefined) throw new Error(`no job was created: ${created}`);
  return async () => {
    const sent = program.telegram.next();
    await program.command("cron", "run", id);
    await sent;
  };
}

async function prepareWebhook(program: Program): Promise<() => Promise<void>> {
  await gatewayUrl(program);
  const url = await program.output.find(/hooks +(http:\/\/\S+?)\/webhooks/);
  let last = 0;
  return async () => {
    const body = JSON.stringify({ action: "opened", issue: { title: `Issue ${(last += 1)}` } });
    const signature = createHmac("sha256", SECRET).update(body).digest("hex");
    const sent = program.telegram.next();
    const response = await fetch(`${url}/webhooks/issues`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "x-github-event": "issues",
        "x-github-delivery": `walk-${last}`,
        "x-hub-signature-256": `sha256=${signature}`,
      },
      body,
    });
    if (response.status !== 202) throw new Error(`the webhook was refused: ${await response.text()}`);
    await sent;
  };
}

function gatewayUrl(program: Program): Promise<string> {
  return program.output.find(/listens on (\S+)/);
}

/** Everything that a stream said so far. */
class Transcript {
  #text = "";
  readonly #stream: NodeJS.ReadableStream;

  constructor(stream: NodeJS.ReadableStream) {
    this.#stream = stream.on("data", (chunk) => (this.#text += String(chunk)));
  }

  /** Resolves to the first group of the first match, as soon as the stream has said it. */
  async find(pattern: RegExp): Promise<string> {
    for (;;) {
      const found = pattern.exec(this.#text)?.[1];
      if (found !== undefined) return found;
      await once(this.#stream, "data", { signal: AbortSignal.timeout(TIMEOUT_MS) });
    }
  }
}

interface Frame {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: unknown;
  readonly error?: unknown;
}

/** The far end of a JSON-RPC connection. */
class Peer {
  readonly #waiting = new Set<{
    readonly fits: (frame: Frame) => boolean;
    readonly take: (frame: Frame) => void;
  }>();
  #lastId = 0;

  take(text: string): void {
    const frame = JSON.parse(text) as Frame;
    for (const waiter of this.#waiting) {
      if (!waiter.fits(frame)) continue;
      this.#waiting.delete(waiter);
      waiter.take(frame);
    }
  }

  next(fits: (frame: Frame) => boolean): Promise<Frame> {
    const { promise, resolve: take } = Promise.withResolvers<Frame>();
    this.#waiting.add({ fits, take });
    return promise;
  }

  async request(send: (text: string) => void, method: string, params: object): Promise<unknown> {
    const id = ++this.#lastId;
    const answer = this.next((frame) => frame.id === id && frame.method === undefined);
    send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    const { result, error } = await answer;
    if (error !== undefined) throw new Error(`${method}: ${JSON.stringify(error)}`);
    return result;
  }
}

interface Telegram extends AsyncDisposable {
  readonly url: string;
  /** Resolves at the next message. */
  next(): Promise<void>;
}

/** Answers as the Bot API answers to `sendMessage`. */
async function startTelegram(): Promise<Telegram> {
  const waiting: (() => void)[] = [];
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      response.setHeader("content-type", "application/json");
      response.end('{"ok":true,"result":{"message_id":1}}');
      // Behind the answer, so that the program also records it.
      setTimeout(() => waiting.splice(0).forEach((take) => take()), 500);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return {
    url: `http://127.0.0.1:${address.port}`,
    next: () => new Promise((take) => void waiting.push(take)),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

await main();
