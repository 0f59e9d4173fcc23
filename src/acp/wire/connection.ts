import type { AgentContext, AnyMessage } from "@agentclientprotocol/sdk/unstable";
import { isRecord } from "../../base/json/schema.ts";
import { NO_FEATURES, type ClientFeatures, type ClientQuirks } from "./client.ts";
import { sessionNotFound } from "./error.ts";
import type { AcpDeps } from "../deps.ts";
import type { AcpSession } from "../session/session.ts";
import type { Launcher } from "./snippets.ts";

interface AcpConnectionOptions {
  /** The version of agentd. */
  readonly version: string;
  /** Loads the agent when a request first needs it, and again after a failure. */
  readonly load: () => Promise<AcpDeps>;
  /** Runs `after` once the response to a request is written. */
  readonly afterAnswer: (requestId: string | number | null, after: () => void) => void;
  /** Receives internal errors; the client sees only their kind. */
  readonly onFault: (error: unknown) => void;
  /** Returns the command that starts this program. */
  readonly launcher: () => Launcher;
}

/** The client of this process and its open sessions. */
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
  /** The features of the last `initialize`. */
  features: ClientFeatures = NO_FEATURES;
  readonly quirks: ClientQuirks = { hasNoPermissions: false, hasNoForms: false, isSilent: false };

  constructor({ version, load, afterAnswer, onFault, launcher }: AcpConnectionOptions) {
    this.version = version;
    this.#load = load;
    this.afterAnswer = afterAnswer;
    this.onFault = onFault;
    this.launcher = launcher;
  }

  get client(): AgentContext {
    if (!this.#client) throw new Error("The connection is not open yet.");
    return this.#client;
  }

  connected(client: AgentContext): void {
    this.#client = client;
  }

  get sessions(): readonly AcpSession[] {
    return [...this.#sessions.values()];
  }

  /** Returns the agent, which loads at the first call. */
  deps(): Promise<AcpDeps> {
    this.#deps ??= this.#loaded();
    return this.#deps;
  }

  /**
   * Returns the agent for the current configuration. Reloads it after a change, unless a session is open: that one keeps
   * its agent.
   */
  refresh(): Promise<AcpDeps> {
    this.#refreshed ??= this.#renewed().finally(() => (this.#refreshed = undefined));
    return this.#refreshed;
  }

  async #renewed(): Promise<AcpDeps> {
    // A load in progress may have read the previous configuration.
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

  /** Closes the session and cancels its turns. A newer session with the same id stays open. */
  close(session: AcpSession): void {
    session.close();
    if (this.#sessions.get(session.id) === session) this.#sessions.delete(session.id);
  }

  /**
   * Handles a message as it is read, before its handler runs: a cancel that precedes another message takes effect before
   * it, even if its handler loads slowly.
   */
  onMessage(message: AnyMessage): void {
    if (!("method" in message) || message.method !== "session/cancel" || !isRecord(message.params)) return;
    const { sessionId } = message.params;
    if (typeof sessionId === "string") this.find(sessionId)?.cancel();
  }

  /** Aborts when the client disconnects. */
  get disconnected(): AbortSignal {
    return this.#disconnected.signal;
  }

  /** Cancels all turns of the client, so that its requests are answered. */
  disconnect(): void {
    this.#disconnected.abort();
    for (const session of this.#sessions.values()) session.cancel();
  }

  /** Closes the open sessions, then the agent. */
  async stop(): Promise<void> {
    for (const session of this.sessions) this.close(session);
    const deps = await this.#deps?.catch(() => undefined);
    await deps?.close();
  }
}
