import type { Todo } from "../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { sha256 } from "../../base/digest.ts";
import { createSessionId, isSessionId } from "../../base/ids.ts";
import type { Store, Tx } from "../../store/store.ts";
import { lockName } from "../../store/tx/tx.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { TodoList } from "../tool/tool.ts";

/** Whose session, and how the caller names it. Without id, name and key a new one is made for this prompt alone. */
export interface SessionAddress {
  readonly owner: string;
  readonly id?: string;
  /** An id as a client says it: one that it was told, or chose itself. Checked by {@link checkSessionName}. */
  readonly name?: string;
  readonly key?: string;
}

/** Owner of all that is done without a key of its own: the main key, editors, hooks, scheduled jobs. */
const MAIN_OWNER = "default";

/**
 * Id of the session that a client of `owner` named itself. Ids are one space and names are each owner's own, so those of
 * owners besides the main one carry their owner. No name has two dots in it.
 */
export function idOfName(owner: string, name: string): string {
  return owner === MAIN_OWNER ? name : `${name}..${sha256(owner).slice(0, OWNER_DIGITS)}`;
}

/** What the owner calls a session of this id: the inverse of {@link idOfName}, and ids that were made here as they are. */
export function nameOfId(id: string): string {
  return id.replace(OWNER_SUFFIX, "");
}

const OWNER_DIGITS = 12;
const OWNER_SUFFIX = /\.\.[0-9a-f]{12}$/;

/** What a session is made with; see the columns of the same names. */
export interface SessionSeed {
  readonly source: string;
  readonly cwd?: string;
  readonly model?: string;
  readonly title?: string;
  /** The session this one is branched from, or works for. */
  readonly parentId?: string;
  readonly settings?: SessionSettings;
  /** True: swept with its runs even though it has a name. */
  readonly transient?: boolean;
}

/** What was chosen for one session, kept in its `meta`. */
export interface SessionSettings {
  readonly reasoningEffort?: string;
  /** True: no approvals in this session. */
  readonly yolo?: boolean;
  /** Absent: nobody chose one, and the configuration alone decides. */
  readonly mode?: SessionMode;
  readonly todos?: readonly Todo[];
}

export function settingsOf(session: Pick<SessionRow, "meta">): SessionSettings {
  return JSON.parse(session.meta) as SessionSettings;
}

/**
 * Changes some of a session's settings, inside `tx`; undefined takes one away. ServiceError `session_not_found`, and
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
 * The session an address speaks of, undefined when it does not exist yet.
 * An id that belongs to another owner answers like one that does not exist for reading: ServiceError
 * `session_not_found`, so that nobody learns which ids are taken by whom.
 */
export async function findSession(store: Store, address: SessionAddress): Promise<SessionRow | undefined> {
  const { owner, key } = address;
  if (isNamed(address)) return ofName((id) => store.find("sessions", { id }), address);
  return key === undefined ? undefined : newestOfKey(store.read, owner, key);
}

/**
 * As {@link findSession}, inside the transaction that makes the session when there is none: nobody else makes it then, in
 * whatever process. An id is kept by the key of the table; of a session key there may be several sessions, made on
 * purpose.
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
  // What another owner named the same is nothing to this one; an id that was made here is one alone.
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

/** The row of a session that does not exist yet. */
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
 * Takes the right to run turns in a session: one process at a time. False when somebody has it.
 * A lease that ran out is not taken here: recovery first closes what its owner left open.
 */
export async function takeLease(tx: Tx, sessionId: string, lease: Lease): Promise<boolean> {
  const set = { lease_owner: lease.owner, lease_until: tx.nowMs + lease.ms };
  return (await tx.update("sessions", { id: sessionId, lease_owner: null }, set)) === 1;
}

/** Gives the right back. False when prompts are waiting: the caller then goes on with the next one. */
export async function releaseLease(tx: Tx, sessionId: string, owner: string): Promise<boolean> {
  const set = { lease_owner: null, lease_until: 0, updated_at: tx.nowMs };
  return (await tx.update("sessions", { id: sessionId, lease_owner: owner, queued: 0 }, set)) === 1;
}

export interface Lease {
  readonly owner: string;
  readonly ms: number;
}

/** Refuses ids and keys that could not be a header, a file name or a path segment. */
export function checkSessionName(kind: "id" | "key", value: string, param: string): void {
  const code = kind === "id" ? "invalid_session_id" : "invalid_session_key";
  const fail = (what: string): never => {
    throw new ServiceError(code, `${param} ${what}.`, { param });
  };
  if (value.length === 0) fail("must not be empty");
  if (value.length > MAX_SESSION_NAME_LENGTH) fail(`must be at most ${MAX_SESSION_NAME_LENGTH} characters`);
  if (CONTROL.test(value)) fail("must not contain control characters");
  if (!HEADER_SAFE.test(value)) fail("must be of characters that a header can carry (Latin-1)");
  if (kind === "id" && PATH.test(value)) fail("must not contain `/`, `\\` or `..`");
}

export function sessionNotFound(id: string): ServiceError {
  return new ServiceError("session_not_found", `There is no session ${JSON.stringify(nameOfId(id))}.`);
}

// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
/** Answers repeat the name in a header (RFC 9110, 5.5). */
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
 * Returns the mode that describes best what happens in a session where nobody chose one: by default edits in the working
 * folder need no approval; where the configuration asks for everything, they do.
 */
export function unchosenMode(configured: "ask" | "always_ask" | "yolo"): SessionMode {
  return configured === "always_ask" ? "ask" : "accept_edits";
}

export function isMode(text: string): text is SessionMode {
  return MODES.some((mode) => mode === text);
}

/** For the model, from the first step of a turn in plan mode. */
export const PLAN_INSTRUCTIONS =
  "You are in plan mode: read, search, fetch and ask, but change nothing. End with a plan of what you would do, in " +
  "steps that can be checked. The user has it carried out by choosing another mode.";

/** The plan of a session, kept with its settings. */
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
