import type { AgentContext, AnyMessage } from "@agentclientprotocol/sdk/unstable";
import { isRecord } from "../../base/json/schema.ts";
import { NO_FEATURES, type ClientFeatures } from "./client.ts";
import { sessionNotFound } from "./error.ts";
import type { AcpDeps } from "../deps.ts";
import type { AcpSession } from "../session/session.ts";
import type { Launcher } from "./snippets.ts";

interface AcpConnectionOptions {
  /** Of agentd. */
  readonly version: string;
  /** Loads the agent. Called when a request needs it, again after it failed. */
  readonly load: () => Promise<AcpDeps>;
  /** Runs `after` once the answer to a request is on its way. */
  readonly afterAnswer: (requestId: string | number | null, after: () => void) => void;
  /** Is told of errors that are nobody's input: the client gets no more than their kind. */
  readonly onFault: (error: unknown) => void;
  /** How this program is started. */
  readonly launcher: () => Launcher;
}

/** The one client of this process, and what it has open. */
export class AcpConnection {
  readonly version: string;
  readonly afterAnswer: AcpConnectionOptions["afterAnswer"];
  readonly onFault: AcpConnectionOptions["onFault"];
  readonly launcher: AcpConnectionOptions["launcher"];
  readonly #load: () => Promise<AcpDeps>;
  #deps: Promise<AcpDeps> | undefined;
  #refreshed: Promise<AcpDeps> | undefined;
  #client: AgentContext | undefined;
  readonly #sessions = new Map<string, AcpSession>();
  readonly #disconnected = new AbortController();
  /** As `initialize` told them last. */
  features: ClientFeatures = NO_FEATURES;

  constructor({ version, load, afterAnswer, onFault, launcher }: AcpConnectionOptions) {
    this.version = version;
    this.#load = load;
    this.afterAnswer = afterAnswer;
    this.onFault = onFault;
    this.launcher = launcher;
  }

  get client(): AgentContext {
    if (!this.#client) throw new Error("the connection is not open yet");
    return this.#client;
  }

  connected(client: AgentContext): void {
    this.#client = client;
  }

  get sessions(): readonly AcpSession[] {
    return [...this.#sessions.values()];
  }

  /** The agent, loaded with the first call. */
  deps(): Promise<AcpDeps> {
    this.#deps ??= this.#loaded();
    return this.#deps;
  }

  /**
   * The agent as the configuration is now: loaded anew when that says something else, unless a session is open, which
   * works with the agent that is there.
   */
  refresh(): Promise<AcpDeps> {
    this.#refreshed ??= this.#renewed().finally(() => (this.#refreshed = undefined));
    return this.#refreshed;
  }

  async #renewed(): Promise<AcpDeps> {
    // What is loading may have read what stood there before.
    const deps = await this.deps().catch(() => this.deps());
    if ((await deps.isCurrent()) || this.#sessions.size > 0 || this.disconnected.aborted) return deps;
    this.#deps = this.#loaded(deps);
    return this.#deps;
  }

  async #loaded(former?: AcpDeps): Promise<AcpDeps> {
    try {
      await former?.close();
      return await this.#load();
    } catch (error) {
      this.#deps = undefined;
      throw error;
    }
  }

  open(session: AcpSession): void {
    this.#sessions.set(session.id, session);
  }

  find(id: string): AcpSession | undefined {
    return this.#sessions.get(id);
  }

  /** RequestError -32002 for a session that is not open here. */
  session(id: string): AcpSession {
    const session = this.#sessions.get(id);
    if (!session) throw sessionNotFound(id);
    return session;
  }

  /** The session is open no more, unless it was opened again; what it runs is cancelled. */
  close(session: AcpSession): void {
    session.close();
    if (this.#sessions.get(session.id) === session) this.#sessions.delete(session.id);
  }

  /**
   * A message as it is read, before anything handles it: a cancel that stands in front of an answer is heard in front of
   * it, however long its handler takes.
   */
  onMessage(message: AnyMessage): void {
    if (!("method" in message) || message.method !== "session/cancel" || !isRecord(message.params)) return;
    const { sessionId } = message.params;
    if (typeof sessionId === "string") this.find(sessionId)?.cancel();
  }

  /** Aborts when the client sends no more. */
  get disconnected(): AbortSignal {
    return this.#disconnected.signal;
  }

  /** The client sends no more: what it runs is cancelled, so that its requests are answered. */
  disconnect(): void {
    this.#disconnected.abort();
    for (const session of this.#sessions.values()) session.cancel();
  }

  /** Ends what was loaded for the client, after what it had open. */
  async stop(): Promise<void> {
    for (const session of this.sessions) this.close(session);
    const deps = await this.#deps?.catch(() => undefined);
    await deps?.close();
  }
}
