import type { Clock } from "../../base/clock.ts";
import { ServiceError } from "../../base/errors.ts";
import { sessionNotFound, type SessionSeed } from "./session.ts";
import type { FileAccess, Tool, SessionVariables } from "../tool/tool.ts";

/** A session that is open in this process; it need not be saved yet. */
export interface LiveSession {
  readonly id: string;
  readonly owner: string;
  /** Seed of the session, which is saved with its first prompt. */
  readonly seed: SessionSeed;
  readonly openedAtMs: number;
  lastActiveAtMs: number;
  /** Viewers that have it open; at 0 it stays open until it is closed or reaped. */
  viewers: number;
}

/** A session without viewers and activity for this long is closed here; it stays saved. */
const IDLE_MS = 6 * 3_600_000;

/** The sessions open in this process. For saved sessions see sessions.ts. */
export class LiveSessions {
  readonly #clock: Clock;
  readonly #max: number;
  readonly #open = new Map<string, LiveSession>();
  readonly #listeners = new Set<(reclaimed: LiveSession) => void>();

  constructor(options: { readonly clock: Clock; readonly max: number }) {
    this.#clock = options.clock;
    this.#max = options.max;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Opens a session, or returns the open one. ServiceError `too_many_live_sessions`, `session_not_found` (another owner's). */
  open(session: { readonly id: string; readonly owner: string; readonly seed: SessionSeed }): LiveSession {
    const known = this.#open.get(session.id);
    if (known && known.owner !== session.owner) throw sessionNotFound(session.id);
    if (known) {
      this.touch(session.id);
      return known;
    }
    if (this.#open.size >= this.#max) this.#reap();
    if (this.#open.size >= this.#max) {
      throw new ServiceError(
        "too_many_live_sessions",
        `${this.#max} sessions are open, which is the limit (sessions.max_live). Close one.`,
      );
    }
    const nowMs = this.#clock.now();
    const live: LiveSession = { ...session, openedAtMs: nowMs, lastActiveAtMs: nowMs, viewers: 0 };
    this.#open.set(session.id, live);
    return live;
  }

  /** Undefined when it is not open here, or belongs to another owner. */
  find(id: string, owner: string): LiveSession | undefined {
    const live = this.#open.get(id);
    return live?.owner === owner ? live : undefined;
  }

  touch(id: string): void {
    const live = this.#open.get(id);
    if (live) live.lastActiveAtMs = this.#clock.now();
  }

  /** Returns the open sessions of an owner in the order of opening. */
  list(owner: string): readonly LiveSession[] {
    return [...this.#open.values()].filter((live) => live.owner === owner);
  }

  /** False when it was not open. */
  close(id: string, owner: string): boolean {
    return this.find(id, owner) !== undefined && this.#open.delete(id);
  }

  /** Calls `listener` for each idle session that is closed. The returned function unsubscribes it. */
  onReclaimed(listener: (reclaimed: LiveSession) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #reap(): void {
    const before = this.#clock.now() - IDLE_MS;
    for (const [id, live] of this.#open) {
      if (live.viewers > 0 || live.lastActiveAtMs >= before) continue;
      this.#open.delete(id);
      this.#listeners.forEach((listener) => listener(live));
    }
  }
}

/** Resources that a client attaches to a session while it has it open. */
export interface ClientResources {
  /** The current tools beside the agent's own. */
  readonly tools?: () => readonly Tool[];
  /** Resolves when pending tools are ready, or have timed out. */
  readonly settled?: () => Promise<void>;
  /** The files as the client has them. */
  readonly files?: FileAccess;
  /** Further absolute folders of the session. */
  readonly roots?: readonly string[];
  /** Notices for people since the last call. */
  readonly notices?: () => readonly string[];
  /** Closes the resources after they are detached. */
  readonly close?: () => Promise<void>;
}

/** All resources attached to one session; of `files`, the last attached. */
export interface SessionResources {
  /** Returns `own` and the attached tools; an attached tool whose name is taken gets another name. */
  tools(own: readonly Tool[]): readonly Tool[];
  settled(): Promise<void>;
  readonly files: FileAccess | undefined;
  readonly roots: readonly string[];
  notices(): readonly string[];
}

const MAX_NAME_CHARACTERS = 64;

/**
 * Resources of clients for the sessions they have open, in this process only: a run that another process resumes has none.
 * Sub-agents get the resources of the session at the top of their family.
 */
export class AttachedClients {
  readonly #attached = new Map<string, Set<ClientResources>>();
  readonly #closing = new Set<Promise<void>>();

  /** Attaches resources to a session. The returned function detaches them and resolves when they are closed. */
  attach(sessionId: string, client: ClientResources): () => Promise<void> {
    const attached = this.#attached.get(sessionId) ?? new Set();
    this.#attached.set(sessionId, attached.add(client));
    return () => this.#detach(sessionId, client);
  }

  of(sessionId: string): SessionResources {
    const attached = [...(this.#attached.get(sessionId) ?? [])];
    return {
      tools: (own) => joined(own, attached),
      settled: async () => void (await Promise.all(attached.map((client) => client.settled?.()))),
      files: attached.findLast(({ files }) => files !== undefined)?.files,
      roots: [...new Set(attached.flatMap(({ roots = [] }) => roots))],
      notices: () => attached.flatMap((client) => client.notices?.() ?? []),
    };
  }

  /** Detaches all resources; resolves when all are closed. */
  async close(): Promise<void> {
    for (const [sessionId, attached] of this.#attached) {
      for (const client of attached) void this.#detach(sessionId, client);
    }
    await Promise.all(this.#closing);
  }

  async #detach(sessionId: string, client: ClientResources): Promise<void> {
    const attached = this.#attached.get(sessionId);
    if (!attached?.delete(client)) return;
    if (attached.size === 0) this.#attached.delete(sessionId);
    const closing = (client.close?.() ?? Promise.resolve()).catch(() => {});
    this.#closing.add(closing);
    await closing.finally(() => this.#closing.delete(closing));
  }
}

function joined(own: readonly Tool[], attached: readonly ClientResources[]): readonly Tool[] {
  const tools = attached.flatMap((client) => client.tools?.() ?? []);
  if (tools.length === 0) return own;
  const taken = new Set(own.map(({ name }) => name));
  return [...own, ...tools.map((tool) => distinct(tool, taken))];
}

function distinct(tool: Tool, taken: Set<string>): Tool {
  let name = tool.name;
  for (let count = 2; taken.has(name); count += 1) {
    const ending = `_${count}`;
    name = `${tool.name.slice(0, MAX_NAME_CHARACTERS - ending.length)}${ending}`;
  }
  taken.add(name);
  return name === tool.name ? tool : { ...tool, name };
}

/** Where variables come from. */
export interface VariableSource {
  get(name: string): string | undefined;
}

/** Sessions whose shared variables are remembered; the longest unused go first. */
const MAX_SESSIONS = 1000;

/** Which variables the commands of a session see, in this process: none, until a skill or tool shares some. */
export class VariableShares {
  readonly #source: VariableSource;
  readonly #names = new Map<string, Set<string>>();

  constructor(source: VariableSource) {
    this.#source = source;
  }

  of(sessionId: string): SessionVariables {
    const source = this.#source;
    return {
      has: (name) => source.get(name) !== undefined,
      share: (name) => void this.#keep(sessionId).add(name),
      shared: () =>
        Object.fromEntries(
          [...(this.#names.get(sessionId) ?? [])].flatMap((name) => {
            const value = source.get(name);
            return value === undefined ? [] : [[name, value]];
          }),
        ),
    };
  }

  #keep(sessionId: string): Set<string> {
    const names = this.#names.get(sessionId) ?? new Set<string>();
    this.#names.delete(sessionId);
    this.#names.set(sessionId, names);
    if (this.#names.size > MAX_SESSIONS) {
      const [oldest] = this.#names.keys();
      if (oldest !== undefined) this.#names.delete(oldest);
    }
    return names;
  }
}
