/** Sessions: their addresses, seeds, settings and modes, and those open in this process with what clients attach. */
import type { Todo } from "../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { sha256, createSessionId, isSessionId } from "../../base/text.ts";
import { leaseFor, UNLEASED, lockName } from "../../store/tx/tx.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { TodoList, FileAccess, Tool, SessionVariables } from "../tool/tool.ts";
import type { Clock } from "../../base/time.ts";
import type { Attachment, Message } from "../engine.ts";

/** The owner of a session and its id, name or key. Without these a new session is created for one prompt. */
export interface SessionAddress {
  readonly owner: string;
  readonly id?: string;
  /** An id as the client sent it: one it got before, or chose itself. Checked by {@link checkSessionName}. */
  readonly name?: string;
  readonly key?: string;
}

/** Owner of everything without a key of its own: the main key, editors, hooks, scheduled jobs. */
const MAIN_OWNER = "default";

/**
 * Returns the id of the session that a client of `owner` named. Ids are global and names belong to their owner, so the ids
 * of all owners but the main one carry a hash of the owner. No name contains two dots.
 */
export function idOfName(owner: string, name: string): string {
  return owner === MAIN_OWNER ? name : `${name}..${sha256(owner).slice(0, OWNER_DIGITS)}`;
}

/** Returns the owner's name of a session: the inverse of {@link idOfName}. Generated ids stay as they are. */
export function nameOfId(id: string): string {
  return id.replace(OWNER_SUFFIX, "");
}

/** Returns between which ids those of `name` lie for all owners but the main one: from the first up to the second. */
export const idsOfName = (name: string): readonly [string, string] => [`${name}..0`, `${name}..g`];

const OWNER_DIGITS = 12;
const OWNER_SUFFIX = /\.\.[0-9a-f]{12}$/;

/** The initial values of a session; see the columns of the same names. */
export interface SessionSeed {
  readonly source: string;
  readonly cwd?: string;
  readonly model?: string;
  readonly title?: string;
  /** The session that this one branches from or works for. */
  readonly parentId?: string;
  readonly settings?: SessionSettings;
  /** True: swept with its runs even though it has a name. */
  readonly transient?: boolean;
}

/** The settings of one session, stored in its `meta`. */
export interface SessionSettings {
  readonly reasoningEffort?: string;
  /** True: no approvals in this session. */
  readonly yolo?: boolean;
  /** Absent: the configuration decides. */
  readonly mode?: SessionMode;
  readonly todos?: readonly Todo[];
}

export function settingsOf(session: Pick<SessionRow, "meta">): SessionSettings {
  return JSON.parse(session.meta) as SessionSettings;
}

/**
 * Changes some of a session's settings, inside `tx`; undefined removes one. ServiceError `session_not_found`, and
 * `session_busy` when another process changed them at the same time.
 */
export async function changeSettings(
  tx: Tx,
  sessionId: string,
  change: { readonly [K in keyof SessionSettings]: SessionSettings[K] | undefined },
): Promise<void> {
  const row = await tx.find("sessions", { id: sessionId });
  if (!row) throw sessionNotFound(sessionId);
  const meta = JSON.stringify({ ...settingsOf(row), ...change });
  if ((await tx.update("sessions", { id: sessionId, meta: row.meta }, { meta })) === 1) return;
  throw new ServiceError("session_busy", "The session was changed at the same time. Try again.");
}

export const MAX_SESSION_NAME_LENGTH = 256;

/**
 * Returns the session of an address, undefined when it does not exist yet. ServiceError `session_not_found` for another
 * owner's id, as for an id that does not exist, so that no caller learns which ids are taken.
 */
export async function findSession(store: Store, address: SessionAddress): Promise<SessionRow | undefined> {
  const { owner, key } = address;
  if (isNamed(address)) return ofName((id) => store.find("sessions", { id }), address);
  return key === undefined ? undefined : newestOfKey(store.read, owner, key);
}

/**
 * As {@link findSession}, inside the transaction that creates a missing session: no other process can create it then. The
 * table's key protects ids; a session key is locked, since it may have several sessions on purpose.
 */
export async function claimSession(tx: Tx, address: SessionAddress): Promise<SessionRow | undefined> {
  const { owner, key } = address;
  if (isNamed(address)) return ofName((id) => tx.find("sessions", { id }), address);
  if (key === undefined) return undefined;
  const known = await newestOfKey(tx.db, owner, key);
  if (known) return known;
  await lockName(tx, JSON.stringify(["session_key", owner, key]));
  return newestOfKey(tx.db, owner, key);
}

const isNamed = ({ id, name }: SessionAddress): boolean => (id ?? name) !== undefined;

async function ofName(
  find: (id: string) => Promise<SessionRow | undefined>,
  { owner, id, name = "" }: SessionAddress,
): Promise<SessionRow | undefined> {
  const row = await find(id ?? name);
  if (row?.owner === owner) return row;
  const own = idOfName(owner, name);
  // Another owner may use the same name; a generated id exists only once.
  if (row && (id !== undefined || own === name || isSessionId(name))) throw sessionNotFound(id ?? name);
  return id !== undefined || own === name ? undefined : find(own);
}

function newestOfKey(db: Store["read"], owner: string, key: string): Promise<SessionRow | undefined> {
  return db
    .selectFrom("sessions")
    .selectAll()
    .where("owner", "=", owner)
    .where("session_key", "=", key)
    .orderBy("created_at", "desc")
    .orderBy("id", "desc")
    .limit(1)
    .executeTakeFirst();
}

/** Returns the row of a new session. */
export function newSession(address: SessionAddress, seed: SessionSeed, nowMs: number): SessionRow {
  const { owner, name, key } = address;
  const id = address.id ?? (name === undefined ? undefined : idOfName(owner, name));
  return {
    id: id ?? createSessionId(nowMs),
    owner,
    session_key: key ?? null,
    source: seed.source,
    title: seed.title ?? null,
    model: seed.model ?? null,
    cwd: seed.cwd ?? null,
    meta: seed.settings === undefined ? "{}" : JSON.stringify(seed.settings),
    transient: (seed.transient ?? (id === undefined && key === undefined)) ? 1 : 0,
    last_seq: 0,
    last_message: 0,
    queued: 0,
    ...UNLEASED,
    created_at: nowMs,
    updated_at: nowMs,
    parent_id: seed.parentId ?? null,
    root_id: null,
    usage: null,
    context_seq: 0,
    summary_seq: null,
  };
}

/** Records a new session for the feed. A session of one stateless request is not a resource of its own. */
export function recordCreated(tx: Tx, { id, owner, transient }: SessionRow, actor?: string): void {
  const author = actor === undefined ? {} : { actor };
  if (transient === 0) tx.record({ type: "session.created", ref: id, owner, data: {}, ...author });
}

/**
 * Takes the lease of a session: the right of one process to run its turns. False when it is taken.
 * An expired lease is not taken here: recovery first closes the runs of its owner.
 */
export async function takeLease(tx: Tx, sessionId: string, lease: Lease): Promise<boolean> {
  const set = leaseFor(tx, lease.owner, lease.ms);
  return (await tx.update("sessions", { id: sessionId, lease_owner: null }, set)) === 1;
}

/** Releases the lease. False when prompts are queued: the caller then starts the next one. */
export async function releaseLease(tx: Tx, sessionId: string, owner: string): Promise<boolean> {
  const set = { ...UNLEASED, updated_at: tx.nowMs };
  return (await tx.update("sessions", { id: sessionId, lease_owner: owner, queued: 0 }, set)) === 1;
}

export interface Lease {
  readonly owner: string;
  readonly ms: number;
}

/** Rejects ids and keys that cannot be a header value, a file name or a path segment. */
export function checkSessionName(kind: "id" | "key", value: string, param: string): void {
  const code = kind === "id" ? "invalid_session_id" : "invalid_session_key";
  const fail = (what: string): never => {
    throw new ServiceError(code, `${param} ${what}.`, { param });
  };
  if (value.length === 0) fail("must not be empty");
  if (value.length > MAX_SESSION_NAME_LENGTH) fail(`must be at most ${MAX_SESSION_NAME_LENGTH} characters`);
  if (CONTROL.test(value)) fail("must not contain control characters");
  if (!HEADER_SAFE.test(value)) fail("must contain only characters that a header can carry (Latin-1)");
  if (kind === "id" && PATH.test(value)) fail("must not contain `/`, `\\` or `..`");
}

export function sessionNotFound(id: string): ServiceError {
  return new ServiceError("session_not_found", `Session ${JSON.stringify(nameOfId(id))} does not exist.`);
}

// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;

/** Responses repeat the name in a header (RFC 9110, 5.5). */
const HEADER_SAFE = /^[\u0020-\u00ff]*$/;
const PATH = /[/\\]|\.\./;

/** How much the agent may do in a session without asking, as people choose it; policy.ts applies it to calls. Pure. */

export const MODES = ["ask", "accept_edits", "dont_ask", "plan"] as const;

export type SessionMode = (typeof MODES)[number];

/** Names and descriptions that people read. */
const MODE_TEXTS: Readonly<Record<SessionMode, { readonly name: string; readonly description: string }>> = {
  ask: { name: "Ask", description: "Asks before every edit and every command that may change something" },
  accept_edits: {
    name: "Accept edits",
    description: "Edits files in the working folder without asking; asks before risky commands",
  },
  dont_ask: {
    name: "Don't ask",
    description: "Asks only before it touches secrets, start-up files or its own files",
  },
  plan: { name: "Plan", description: "Reads and searches only, and presents a plan" },
};

/** Describes a mode for people, and says whether commands are contained. */
export function describeMode(mode: SessionMode, { isSandboxed = false }: { readonly isSandboxed?: boolean }) {
  const { name, description } = MODE_TEXTS[mode];
  return { name, description: isSandboxed ? `${description}. Commands run in a sandbox` : description };
}

/**
 * Returns the mode that matches a session without a chosen mode: by default edits in the working folder need no approval;
 * with `always_ask` they do.
 */
export function unchosenMode(configured: "ask" | "always_ask" | "yolo"): SessionMode {
  return configured === "always_ask" ? "ask" : "accept_edits";
}

export function isMode(text: string): text is SessionMode {
  return MODES.some((mode) => mode === text);
}

/** Instructions of the model for a turn in plan mode. */
export const PLAN_INSTRUCTIONS =
  "You are in plan mode: read, search, fetch and ask, but change nothing. End with a plan of what you would do, in " +
  "steps that can be checked. Present it with the tool present_plan if you have it: the user can approve it there. Else " +
  "the user has it carried out by choosing another mode.";

/** Returns the to-do list of a session, stored in its settings. */
export function todoListOf(store: Store, sessionId: string): TodoList {
  return {
    read: async () => {
      const row = await store.read
        .selectFrom("sessions")
        .select("meta")
        .where("id", "=", sessionId)
        .executeTakeFirst();
      if (!row) throw sessionNotFound(sessionId);
      return settingsOf(row).todos ?? [];
    },
    write: (todos) => store.write((tx) => changeSettings(tx, sessionId, { todos })),
  };
}

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

/** A saved session as lists show it. */
export interface SessionSummary {
  readonly id: string;
  readonly owner: string;
  readonly title: string | null;
  /** Start of the first prompt, at most 80 characters. */
  readonly preview: string;
  readonly source: string;
  readonly model: string | null;
  readonly cwd: string | null;
  readonly messageCount: number;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  readonly isBusy: boolean;
}

export interface SessionPage {
  readonly sessions: readonly SessionSummary[];
  /** Pass it as `cursor` for the next page; undefined: this is the last one. */
  readonly nextCursor: string | undefined;
}

/** Returns the cursor of the page after this session. */
export function cursorBehind(updatedAtMs: number, id: string): string {
  return Buffer.from(JSON.stringify([updatedAtMs, id])).toString("base64url");
}

/** An attachment without its content. */
export interface AttachmentInfo {
  readonly kind: Attachment["type"];
  readonly name: string | null;
  readonly media_type: string;
  readonly bytes: number;
}

/** Returns the attachments of a message; only messages of users have any. */
export function attachmentsOf(message: Message): AttachmentInfo[] {
  const attachments = message.role === "user" ? (message.attachments ?? []) : [];
  return attachments.map(({ type, name, mediaType, data }) => ({
    kind: type,
    name: name ?? null,
    media_type: mediaType,
    bytes: Math.floor((data.replace(/=+$/, "").length * 3) / 4),
  }));
}

/** Returns the visible text of a message. */
export function textOf(message: Message): string {
  if (message.role !== "assistant") return message.text;
  return message.parts.map((part) => (part.type === "text" ? part.text : "")).join("");
}
