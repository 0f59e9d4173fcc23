/** The connection to a client: what the client supports, its open sessions and their turns. */
import type {
  AgentContext,
  AnyMessage,
  AuthMethod,
  ClientCapabilities,
} from "@agentclientprotocol/sdk/unstable";
import { isRecord } from "../../base/data.ts";
import { sessionNotFound } from "./error.ts";
import type { AcpDeps } from "../deps.ts";
import type { Launcher } from "./snippets.ts";
import type { Wire } from "./wire.ts";
import type { SessionSeed } from "../../agent/session/session.ts";
import { acpClaims } from "../../../generated/acp/claims.gen.ts";

interface AcpConnectionOptions {
  /** The version of agentd. */
  readonly version: string;
  /** Loads the agent when a request first needs it, and again after a failure. */
  readonly load: () => Promise<AcpDeps>;
  /** The stream of messages to and from the client. */
  readonly wire: Wire;
  /** Receives internal errors; the client sees only their kind. */
  readonly onFault: (error: unknown) => void;
  /** Returns the command that starts this program. */
  readonly launcher: () => Launcher;
}

/** The client of this process and its open sessions. */
export class AcpConnection {
  readonly version: string;
  readonly onFault: AcpConnectionOptions["onFault"];
  readonly launcher: AcpConnectionOptions["launcher"];
  readonly wire: Wire;
  readonly #load: () => Promise<AcpDeps>;
  #deps: Promise<AcpDeps> | undefined;
  #refreshed: Promise<AcpDeps> | undefined;
  #client: AgentContext | undefined;
  readonly #sessions = new Map<string, AcpSession>();
  readonly #disconnected = new AbortController();
  /** The features of the last `initialize`. */
  features: ClientFeatures = NO_FEATURES;
  /** The agent whose key a provider rejected, until a turn succeeds. */
  rejection: { readonly deps: AcpDeps; readonly message: string } | undefined;
  readonly quirks: ClientQuirks = { hasNoPermissions: false, hasNoForms: false, isSilent: false };

  constructor({ version, wire, load, onFault, launcher }: AcpConnectionOptions) {
    this.version = version;
    this.wire = wire;
    this.#load = load;
    this.onFault = onFault;
    this.launcher = launcher;
    wire.watch((direction, message) => {
      if (direction === "in") this.#onMessage(message);
    });
  }

  /** Runs `after` once the response to a request is written. */
  afterAnswer(requestId: string | number | null, after: () => void): void {
    this.wire.afterAnswer(requestId, after);
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
  #onMessage(message: AnyMessage): void {
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

export type AcpSessionSeed = SessionSeed & { readonly cwd: string };

interface AcpSessionOptions {
  readonly id: string;
  readonly seed: AcpSessionSeed;
  readonly openedAtMs: number;
}

/** A turn that the client follows but did not start. */
interface WatchedTurn {
  readonly runId: string;
  /** Stops the turn. */
  cancel(): void;
  /** Stops following; the turn continues. */
  detach(): void;
}

/** Instructions of the client: after the configured ones, or instead of them. */
export interface ClientInstructions {
  readonly instructions: string;
  readonly replacesInstructions?: true;
}

/** A session that the client has open. */
export class AcpSession {
  readonly id: string;
  readonly openedAtMs: number;
  /** Unanswered prompts of the client, in order. The first one may be running. */
  readonly turns = new Set<AcpTurn>();
  /** The turn of another client that this client follows. */
  watched: WatchedTurn | undefined;
  /** Instructions of the client for every run of the session. */
  instructions: ClientInstructions | undefined;
  /** Returns the names of the client's MCP servers that a turn waits for. Undefined: the client named none. */
  awaitedServers: (() => readonly string[]) | undefined;
  /** The session was in the store: if it is missing there, it was deleted. */
  isSaved = false;
  #seed: AcpSessionSeed;
  readonly #closing = new AbortController();
  readonly #releases: (() => void | Promise<void>)[] = [];

  constructor({ id, seed, openedAtMs }: AcpSessionOptions) {
    this.id = id;
    this.#seed = seed;
    this.openedAtMs = openedAtMs;
  }

  /** The values with which the first prompt saves the session, or those of the saved session. */
  get seed(): AcpSessionSeed {
    return this.#seed;
  }

  /** Aborts when the client closes the session or disconnects. */
  get signal(): AbortSignal {
    return this.#closing.signal;
  }

  /** Changes the working folder of the session. */
  moveTo(cwd: string): void {
    this.#seed = { ...this.#seed, cwd };
  }

  /**
   * Cancels running and queued turns; they send no more updates (see {@link AcpTurn}). The newest goes first: a queued
   * prompt must be gone before the turn ahead of it ends.
   */
  cancel(): void {
    for (const turn of [...this.turns].toReversed()) turn.cancel();
  }

  /** Cancels all turns, including the followed turn of another client. */
  interrupt(): void {
    this.cancel();
    this.watched?.cancel();
  }

  /** Adds cleanup that {@link released} runs after the session is closed. */
  onClose(release: () => void | Promise<void>): void {
    this.#releases.push(release);
  }

  close(): void {
    this.cancel();
    this.#closing.abort();
  }

  /** Resolves when all cancelled prompts are answered. */
  async settled(): Promise<void> {
    await Promise.all([...this.turns].map(({ answered }) => answered));
  }

  /** Runs the cleanup once, ignoring failures. */
  async released(): Promise<void> {
    await Promise.allSettled(this.#releases.splice(0).map(async (release) => release()));
  }
}

/** The state of one prompt, from its request to its response. */
export class AcpTurn {
  readonly #cancelled = new AbortController();
  readonly #recorded = Promise.withResolvers<void>();
  readonly #answered = Promise.withResolvers<void>();
  #stop: ((reason: string) => void) | undefined;
  /** Undefined until the prompt is recorded. */
  runId: string | undefined;

  /** Aborts when the client cancels: open questions are withdrawn and their answers ignored. */
  get signal(): AbortSignal {
    return this.#cancelled.signal;
  }

  /** Resolves when the prompt is in the session queue, or will never be. */
  get recorded(): Promise<void> {
    return this.#recorded.promise;
  }

  /** Resolves when the response is written: updates of later turns may follow it. */
  get answered(): Promise<void> {
    return this.#answered.promise;
  }

  /** Cancels the turn. Further calls have no effect. */
  cancel(): void {
    if (this.signal.aborted) return;
    this.#cancelled.abort();
    this.#stop?.(CANCELLED);
  }

  /** Sets the run of the turn. Calls `stop` at once if the turn is already cancelled. */
  started(runId: string, stop: (reason: string) => void): void {
    this.runId = runId;
    this.#stop = stop;
    this.#recorded.resolve();
    if (this.signal.aborted) stop(CANCELLED);
  }

  /** Marks the prompt as queued, or as given up before that. */
  admitted(): void {
    this.#recorded.resolve();
  }

  /** Marks the response as written. */
  answerSent(): void {
    this.#recorded.resolve();
    this.#answered.resolve();
  }
}

const CANCELLED = "The editor cancelled the prompt.";

export interface ClientFeatures {
  readonly readsFiles: boolean;
  readonly writesFiles: boolean;
  /** The client can show forms. */
  readonly forms: boolean;
  readonly booleanOptions: boolean;
  readonly notices: boolean;
  readonly compaction: boolean;
  /** The client can run the setup in a terminal. `legacy`: it says so in the format of older clients. */
  readonly terminalSetup: "no" | "yes" | "legacy";
  /** The client can show command output as a terminal: the whole output each time, or only the new part. */
  readonly terminalOutput: "no" | "whole" | "delta";
}

/** Reads the capabilities of `initialize`. Ignores values of a wrong type: optional fields must not fail a client. */
export function readFeatures(capabilities: ClientCapabilities | null | undefined): ClientFeatures {
  const { fs, auth, elicitation, session, _meta: meta } = capabilities ?? {};
  return {
    readsFiles: fs?.readTextFile === true,
    writesFiles: fs?.writeTextFile === true,
    forms: isRecord(elicitation?.form),
    booleanOptions: isRecord(session?.configOptions?.boolean),
    notices: isRecord(session?.notices),
    compaction: isRecord(session?.compaction),
    terminalSetup: meta?.["terminal-auth"] === true ? "legacy" : auth?.terminal === true ? "yes" : "no",
    terminalOutput:
      meta?.["terminal_output_delta"] === true
        ? "delta"
        : meta?.["terminal_output"] === true
          ? "whole"
          : "no",
  };
}

/** The features of a client before `initialize`. */
const NO_FEATURES: ClientFeatures = readFeatures(undefined);

/** How a client handles questions, as observed: the protocol has no capabilities for it. */
export interface ClientQuirks {
  /** The client answered a permission request with an error: it cannot ask its user. */
  hasNoPermissions: boolean;
  /** The client failed to show a form although it claims to support them. */
  hasNoForms: boolean;
  /** A question timed out: the user may be away. The next answer resets this. */
  isSilent: boolean;
}

interface Client {
  readonly features: ClientFeatures;
  /** Returns the command that starts this program. */
  launcher(): Launcher;
}

/** Returns the authentication methods for this client; the terminal one only if it can open a terminal. */
export function authMethodsFor(client: Client): readonly AuthMethod[] {
  const { provider, setup } = acpClaims.authMethods;
  const { terminalSetup } = client.features;
  if (terminalSetup === "no") return [provider];
  const inTerminal = { ...setup, args: [...setup.args] };
  return [provider, terminalSetup === "yes" ? inTerminal : { ...inTerminal, ...wholeCommand(client) }];
}

/** Returns the whole setup command for older clients, which do not remember how they started the agent. */
function wholeCommand(client: Client) {
  const { command, args, env } = client.launcher();
  const { args: own, name } = acpClaims.authMethods.setup;
  return { _meta: { "terminal-auth": { command, args: [...args, "acp", ...own], env, label: name } } };
}
