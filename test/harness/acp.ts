/** `agentd acp` as a real process, driven by the official SDK's client or line by line. */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  client,
  ndJsonStream,
  PROTOCOL_VERSION,
  type ClientApp,
  type ClientCapabilities,
  type ClientConnection,
  type ClientContext,
  type InitializeResponse,
  type PromptResponse,
  type RequestPermissionRequest,
  type RequestPermissionResponse,
  type SessionUpdate,
} from "@agentclientprotocol/sdk/unstable";
import { startModelServer, type ModelServer, type Replies } from "./openai-server.ts";
import { agentdCommand, programEnvironment, type Command } from "./program.ts";
import { createTestDatabase, testDialect } from "./store.ts";

/** A home, a folder to work in, and maybe a model server that does as the test says. */
export interface AcpPlace extends AsyncDisposable {
  readonly base: string;
  readonly home: string;
  /** Real path, without links. */
  readonly folder: string;
  /** For `openStore`: what its processes keep their sessions in. */
  readonly database: string;
  readonly models: ModelServer | undefined;
  start(options?: AcpStart): AcpProcess;
}

export interface AcpPlaceOptions {
  /** What the model answers; absent: the built-in demo model. */
  readonly replies?: Replies;
  /** More of the configuration, as YAML. */
  readonly config?: string;
}

export interface AcpStart {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Instead of `agentd acp`; it finds its home by itself, or by `env`. */
  readonly command?: Command;
}

export async function createAcpPlace({ replies, config = "" }: AcpPlaceOptions = {}): Promise<AcpPlace> {
  const base = await realpath(await mkdtemp(join(tmpdir(), "agentd-acp-")));
  const [home, folder] = [join(base, "home"), join(base, "work")];
  await Promise.all([mkdir(home, { mode: 0o700 }), mkdir(folder)]);
  const models = replies === undefined ? undefined : await startModelServer(replies);
  await writeFile(join(home, "config.yaml"), acpConfig(models, config));
  const shared = testDialect === "postgres" ? await createTestDatabase() : undefined;
  const database = shared?.url ?? join(home, "state.db");
  const started = new Set<AcpProcess>();
  return {
    base,
    home,
    folder,
    database,
    models,
    start: (options = {}) => {
      const own: Record<string, string> = shared ? { AGENTD_DATABASE_URL: database } : {};
      const made = new AcpProcess({ home, base, ...options, env: { ...own, ...options.env } });
      started.add(made);
      return made;
    },
    async [Symbol.asyncDispose]() {
      for (const each of started) await each[Symbol.asyncDispose]();
      await models?.[Symbol.asyncDispose]();
      await shared?.drop();
      await rm(base, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    },
  };
}

/** The configuration of a place: its model, or the demo model, and `more` as YAML. */
export function acpConfig(models: ModelServer | undefined, more: string): string {
  const model = models
    ? `model:\n  default: local:test-model\n  providers:\n    local: { type: openai_compatible, base_url: "${models.baseUrl}", models: [test-model, other-model] }\nsessions:\n  titles: prompt\n`
    : "model:\n  detect_local: false\n";
  return `${model}${more}`;
}

interface Spawned extends AcpStart {
  readonly home: string;
  readonly base: string;
}

type Line = Readonly<Record<string, unknown>>;

/** The process, and every line that it wrote. */
export class AcpProcess implements AsyncDisposable {
  readonly child: ChildProcess;
  /** As they came; each was checked to be one JSON object. */
  readonly lines: Line[] = [];
  stderr = "";
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  #watchers = new Set<() => void>();
  #rest = "";
  #feed: ReadableStreamDefaultController<Uint8Array> | undefined;

  constructor({ home, base, args = [], env = {}, cwd, command }: Spawned) {
    const [program, ...first] = command ?? agentdCommand("acp");
    this.child = spawn(program, [...first, ...args], {
      cwd: cwd ?? base,
      env: programEnvironment({ ...(command ? {} : { AGENTD_HOME: home }), HOME: base, ...env }),
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.child.stdin?.on("error", () => {});
    this.child.stderr?.setEncoding("utf8").on("data", (text: string) => (this.stderr += text));
    this.child.stdout?.on("data", (chunk: Buffer) => this.#take(chunk));
    this.exited = once(this.child, "close").then(([code, signal]) => {
      this.#endFeed();
      this.#wake();
      return { code, signal } as Awaited<AcpProcess["exited"]>;
    });
  }

  get isAlive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Ends the client's connection and forgets what was written: another client may come. */
  renew(): void {
    this.#endFeed();
    this.lines.length = 0;
    this.stderr = "";
  }

  /** Writes a line as it is. */
  write(text: string | Uint8Array): void {
    this.child.stdin?.write(text);
  }

  send(message: Line): void {
    this.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  /** The answer to a request with this id. */
  answer(id: unknown): Promise<Line> {
    return this.until(() => this.lines.find((line) => line["id"] === id && !("method" in line)));
  }

  /** Waits until `look` finds something; fails when the process ends first. */
  async until<T>(look: () => T | undefined): Promise<T> {
    for (;;) {
      const found = look();
      if (found !== undefined) return found;
      assert.ok(this.isAlive, `agentd ended: ${this.stderr}`);
      await new Promise<void>((resolve) => this.#watchers.add(resolve));
    }
  }

  /** The SDK's client on this process, greeted. */
  async client(options: AcpClientOptions = {}): Promise<AcpClient> {
    const input = new ReadableStream<Uint8Array>({ start: (controller) => void (this.#feed = controller) });
    const output = new WritableStream<Uint8Array>({ write: (chunk) => this.write(chunk) });
    return AcpClient.connect(this, ndJsonStream(output, input), options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.isAlive) this.child.kill("SIGKILL");
    await this.exited;
  }

  #endFeed(): void {
    this.#feed?.close();
    this.#feed = undefined;
  }

  #take(chunk: Buffer): void {
    this.#feed?.enqueue(new Uint8Array(chunk));
    const lines = (this.#rest + chunk.toString("latin1")).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      const value: unknown = JSON.parse(Buffer.from(line, "latin1").toString());
      assert.ok(typeof value === "object" && value !== null && !Array.isArray(value), `no object: ${line}`);
      assert.equal((value as Line)["jsonrpc"], "2.0");
      this.lines.push(value as Line);
    }
    this.#wake();
  }

  #wake(): void {
    const watchers = this.#watchers;
    this.#watchers = new Set();
    for (const watcher of watchers) watcher();
  }
}

export interface AcpClientOptions {
  readonly capabilities?: ClientCapabilities;
  /** Answers questions for leave; absent: what waits is never answered. */
  readonly permission?: (
    request: RequestPermissionRequest,
    signal: AbortSignal,
  ) => RequestPermissionResponse | Promise<RequestPermissionResponse>;
  /** More of what this client serves, such as files and forms. */
  readonly serve?: (app: ClientApp) => ClientApp;
}

/** One line of what the client saw, in its order. */
export type Seen =
  | { readonly kind: "update"; readonly sessionId: string; readonly update: SessionUpdate }
  | { readonly kind: "permission"; readonly request: RequestPermissionRequest };

/** An editor. */
export class AcpClient {
  readonly process: AcpProcess;
  readonly connection: ClientConnection;
  readonly seen: Seen[];
  readonly hello: InitializeResponse;
  readonly #watchers: Set<() => void>;

  private constructor(
    process: AcpProcess,
    connection: ClientConnection,
    known: { readonly seen: Seen[]; readonly hello: InitializeResponse; readonly watchers: Set<() => void> },
  ) {
    this.process = process;
    this.connection = connection;
    this.seen = known.seen;
    this.hello = known.hello;
    this.#watchers = known.watchers;
  }

  static async connect(
    process: AcpProcess,
    stream: ReturnType<typeof ndJsonStream>,
    { capabilities = {}, permission, serve = (app) => app }: AcpClientOptions,
  ): Promise<AcpClient> {
    const seen: Seen[] = [];
    const watchers = new Set<() => void>();
    const note = (what: Seen) => {
      seen.push(what);
      for (const watcher of watchers) watcher();
    };
    const app = serve(
      client()
        .onNotification("session/update", ({ params }) => note({ kind: "update", ...params }))
        .onRequest("session/request_permission", async ({ params, signal }) => {
          note({ kind: "permission", request: params });
          return permission ? await permission(params, signal) : await new Promise<never>(() => {});
        }),
    );
    const connection = app.connect(stream);
    const hello = await connection.agent.request("initialize", {
      protocolVersion: PROTOCOL_VERSION,
      clientCapabilities: capabilities,
      clientInfo: { name: "test", version: "0.0.0" },
    });
    return new AcpClient(process, connection, { seen, hello, watchers });
  }

  get agent(): ClientContext {
    return this.connection.agent;
  }

  /** A new session in `cwd`; resolves to its id. */
  async session(cwd: string): Promise<string> {
    return (await this.agent.request("session/new", { cwd, mcpServers: [] })).sessionId;
  }

  prompt(sessionId: string, text: string): Promise<PromptResponse> {
    return this.agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
  }

  /** What was told of a session, by the kind of update. */
  updates<K extends SessionUpdate["sessionUpdate"]>(
    kind: K,
    sessionId?: string,
  ): Extract<SessionUpdate, { sessionUpdate: K }>[] {
    return this.seen.flatMap((each) =>
      each.kind === "update" &&
      each.update.sessionUpdate === kind &&
      (sessionId === undefined || each.sessionId === sessionId)
        ? [each.update as Extract<SessionUpdate, { sessionUpdate: K }>]
        : [],
    );
  }

  /** The agent's text so far. */
  text(sessionId?: string): string {
    return this.updates("agent_message_chunk", sessionId)
      .map(({ content }) => (content.type === "text" ? content.text : ""))
      .join("");
  }

  /** Waits until `look` finds something in what was seen. */
  async until<T>(look: (seen: readonly Seen[]) => T | undefined): Promise<T> {
    for (;;) {
      const found = look(this.seen);
      if (found !== undefined) return found;
      await new Promise<void>((resolve) => {
        const watcher = () => {
          this.#watchers.delete(watcher);
          resolve();
        };
        this.#watchers.add(watcher);
      });
    }
  }
}

/** Takes the first option whose kind is this. */
export function choose(kind: string): NonNullable<AcpClientOptions["permission"]> {
  return ({ options }) => {
    const option = options.find((each) => each.kind === kind);
    assert.ok(option, `no option of kind ${kind}`);
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  };
}
