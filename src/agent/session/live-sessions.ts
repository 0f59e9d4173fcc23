import type { Clock } from "../../base/clock.ts";
import { ServiceError } from "../../base/errors.ts";
import { sessionNotFound, type SessionSeed } from "./session.ts";
import type { FileAccess, Tool, SessionVariables } from "../tool/tool.ts";

/** A session that somebody has open in this process; it need not be saved yet. */
export interface LiveSession {
  readonly id: string;
  readonly owner: string;
  /** What the session is made with when its first prompt comes. */
  readonly seed: SessionSeed;
  readonly openedAtMs: number;
  lastActiveAtMs: number;
  /** Viewers that have it open; at 0 it stays open until it is closed or reaped. */
  viewers: number;
}

/** Nobody looks at it and nothing happened for so long: it is closed here, and stays saved. */
const IDLE_MS = 6 * 3_600_000;

/** The sessions open in this process. What is saved is another matter, see sessions.ts. */
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

  /** Opens a session, or finds it open. ServiceError `too_many_live_sessions`, and `session_not_found` for another's. */
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

  /** Undefined when it is not open here, or another's. */
  find(id: string, owner: string): LiveSession | undefined {
    const live = this.#open.get(id);
    return live?.owner === owner ? live : undefined;
  }

  touch(id: string): void {
    const live = this.#open.get(id);
    if (live) live.lastActiveAtMs = this.#clock.now();
  }

  /** In the order in which they were opened. */
  list(owner: string): readonly LiveSession[] {
    return [...this.#open.values()].filter((live) => live.owner === owner);
  }

  /** False when it was not open. */
  close(id: string, owner: string): boolean {
    return this.find(id, owner) !== undefined && this.#open.delete(id);
  }

  /** Tells of sessions that were closed because nobody used them. Call what it returns to hear no more. */
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

/** What the program that has a session open lends to it while it has. */
export interface ClientResources {
  /** Tools beside the agent's own, as they are now. */
  readonly tools?: () => readonly Tool[];
  /** Resolves when tools that are still coming are there, or are not waited for any longer. */
  readonly settled?: () => Promise<void>;
  /** The files as the program has them. */
  readonly files?: FileAccess;
  /** Absolute folders where the session works beside its own. */
  readonly roots?: readonly string[];
  /** What people should know since they were last asked for. */
  readonly notices?: () => readonly string[];
  /** Ends what the loan holds, once it was taken back. */
  readonly close?: () => Promise<void>;
}

/** All that is lent to one session; of files, what was lent last. */
export interface SessionResources {
  /** `own`, and what is lent; a lent tool whose name is taken gets another. */
  tools(own: readonly Tool[]): readonly Tool[];
  settled(): Promise<void>;
  readonly files: FileAccess | undefined;
  readonly roots: readonly string[];
  notices(): readonly string[];
}

const MAX_NAME_CHARACTERS = 64;

/**
 * What programs lend to the sessions they have open. Known to this process only: a run that goes on in another does
 * without. Sub-agents get what the session at the top of their family gets.
 */
export class AttachedClients {
  readonly #loans = new Map<string, Set<ClientResources>>();
  readonly #closing = new Set<Promise<void>>();

  /** From now on turns of the session get the loan; the result takes it back, and resolves when it is closed. */
  attach(sessionId: string, loan: ClientResources): () => Promise<void> {
    const loans = this.#loans.get(sessionId) ?? new Set();
    this.#loans.set(sessionId, loans.add(loan));
    return () => this.#truncateAt(sessionId, loan);
  }

  of(sessionId: string): SessionResources {
    const loans = [...(this.#loans.get(sessionId) ?? [])];
    return {
      tools: (own) => joined(own, loans),
      settled: async () => void (await Promise.all(loans.map((loan) => loan.settled?.()))),
      files: loans.findLast(({ files }) => files !== undefined)?.files,
      roots: [...new Set(loans.flatMap(({ roots = [] }) => roots))],
      notices: () => loans.flatMap((loan) => loan.notices?.() ?? []),
    };
  }

  /** Takes everything back; resolves when all of it is closed. */
  async close(): Promise<void> {
    for (const [sessionId, loans] of this.#loans) {
      for (const loan of loans) void this.#truncateAt(sessionId, loan);
    }
    await Promise.all(this.#closing);
  }

  async #truncateAt(sessionId: string, loan: ClientResources): Promise<void> {
    const loans = this.#loans.get(sessionId);
    if (!loans?.delete(loan)) return;
    if (loans.size === 0) this.#loans.delete(sessionId);
    const closing = (loan.close?.() ?? Promise.resolve()).catch(() => {});
    this.#closing.add(closing);
    await closing.finally(() => this.#closing.delete(closing));
  }
}

function joined(own: readonly Tool[], loans: readonly ClientResources[]): readonly Tool[] {
  const lent = loans.flatMap((loan) => loan.tools?.() ?? []);
  if (lent.length === 0) return own;
  const taken = new Set(own.map(({ name }) => name));
  return [...own, ...lent.map((tool) => distinct(tool, taken))];
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
