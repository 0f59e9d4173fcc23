import type { Todo } from "../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { sha256 } from "../../base/digest.ts";
import { createSessionId, isSessionId } from "../../base/ids.ts";
import type { Store, Tx } from "../../store/store.ts";
import { lockName } from "../../store/tx/tx.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { TodoList } from "../tool/tool.ts";

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
    lease_owner: null,
    lease_until: 0,
    created_at: nowMs,
    updated_at: nowMs,
    parent_id: seed.parentId ?? null,
    root_id: null,
    usage: null,
    context_seq: 0,
    summary_seq: null,
  };
}

/**
 * Takes the lease of a session: the right of one process to run its turns. False when it is taken.
 * An expired lease is not taken here: recovery first closes the runs of its owner.
 */
export async function takeLease(tx: Tx, sessionId: string, lease: Lease): Promise<boolean> {
  const set = { lease_owner: lease.owner, lease_until: tx.nowMs + lease.ms };
  return (await tx.update("sessions", { id: sessionId, lease_owner: null }, set)) === 1;
}

/** Releases the lease. False when prompts are queued: the caller then starts the next one. */
export async function releaseLease(tx: Tx, sessionId: string, owner: string): Promise<boolean> {
  const set = { lease_owner: null, lease_until: 0, updated_at: tx.nowMs };
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
  return new ServiceError("session_not_found", `There is no session ${JSON.stringify(nameOfId(id))}.`);
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
export const MODE_TEXTS: Readonly<
  Record<SessionMode, { readonly name: string; readonly description: string }>
> = {
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
  "steps that can be checked. The user has it carried out by choosing another mode.";

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
