/** Saved sessions: find, list, name, branch, undo, delete. */
import type { RunUsage } from "../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { type Store, type Tx, writeOrTry } from "../../store/store.ts";
import { lockName } from "../../store/tx/tx.ts";
import type { RunRow, SessionRow } from "../../store/schema/tables.ts";
import { sessionEvent, type SessionEventData } from "../run/event.ts";
import {
  busy,
  changeSession,
  type BranchOptions,
  type ChangeOptions,
  type SessionChange,
  type Undone,
  type UndoOptions,
} from "./change.ts";
import { freeTitle, titleTaken, cleanTitle } from "./titles.ts";
import { listSessionRows, listSessions } from "./list.ts";
import { type ListOptions, SessionReads } from "./queries.ts";
import type { Message, NumberedMessage } from "../engine.ts";
import {
  type SessionMode,
  changeSettings,
  idOfName,
  recordCreated,
  sessionNotFound,
  newSession,
  textOf,
  type SessionPage,
  type SessionSeed,
} from "./session.ts";

/** Closes the runs that dead processes left open in sessions. False: none were, and what was read is current. */
export type SettleSessions = (sessions: readonly SessionRow[]) => Promise<boolean>;

/** Saved sessions: find, list, rename, branch, undo, delete. For sessions open in a process see {@link LiveSessions} in session.ts. */
export class Sessions {
  readonly reads: SessionReads;
  readonly #store: Store;
  readonly #settle: SettleSessions | undefined;

  /** Without `settle` sessions are returned as stored, even those of dead processes. */
  constructor(store: Store, settle?: SettleSessions) {
    this.reads = new SessionReads(store);
    this.#store = store;
    this.#settle = settle;
  }

  /** Returns a session of `owner` as recovery leaves it; undefined when it does not exist. */
  async saved(id: string, owner: string): Promise<SessionRow | undefined> {
    const row = await this.#store.find("sessions", { id });
    if (row?.owner !== owner) return undefined;
    return (await this.#settle?.([row])) ? this.#store.find("sessions", { id }) : row;
  }

  /** As {@link saved}. ServiceError `session_not_found`, including for another owner's session. */
  async get(id: string, owner: string): Promise<SessionRow> {
    const row = await this.saved(id, owner);
    if (!row) throw sessionNotFound(id);
    return row;
  }

  /** Returns a session by id or name, else the newest with exactly this title. ServiceError `session_not_found`. */
  async find(idOrTitle: string, owner: string): Promise<SessionRow> {
    const ids = [idOrTitle, idOfName(owner, idOrTitle)];
    const rows = await this.#store.read
      .selectFrom("sessions")
      .selectAll()
      .where("owner", "=", owner)
      .where((is) => is.or([is("id", "in", ids), is("title", "=", idOrTitle)]))
      .orderBy("updated_at", "desc")
      .limit(10)
      .execute();
    const row = rows.find(({ id }) => ids.includes(id)) ?? rows[0];
    if (!row) throw sessionNotFound(idOrTitle);
    return (await this.#settle?.([row])) ? this.get(row.id, owner) : row;
  }

  /** Returns a page of an owner's sessions, newest first; see {@link listSessions}. */
  list(options: ListOptions): Promise<SessionPage> {
    return listSessions(this.#store, this.reads, options);
  }

  /** As {@link list}, the whole rows; the cursor of a row is the one behind it. */
  listRows(options: ListOptions): ReturnType<typeof listSessionRows> {
    return listSessionRows(this.#store, options);
  }

  /**
   * Sets the title of a session, unique among its branches. Resolves to the title as stored. ServiceError
   * `invalid_title` when it is empty, too long or taken.
   */
  async rename(id: string, owner: string, title: string): Promise<string> {
    const clean = cleanTitle(title);
    const session = await this.get(id, owner);
    await this.#store.write(async (tx) => {
      if ((await freeTitle(tx, session, clean)) !== clean) throw titleTaken(clean);
      await tx.update("sessions", { id }, { title: clean });
      await this.#update(tx, { id, owner }, { title: clean });
    });
    return clean;
  }

  /** Sets the title of a session without one; a taken title gets a number. False when it has one by now. */
  async nameOnce(id: string, title: string): Promise<boolean> {
    return this.#store.write(async (tx) => {
      const session = await tx.find("sessions", { id });
      if (!session || session.title !== null) return false;
      const free = await freeTitle(tx, session, cleanTitle(title));
      await tx.update("sessions", { id }, { title: free });
      await this.#update(tx, session, { title: free });
      return true;
    });
  }

  /**
   * Changes settings of the session from its next turn on; `mode` and `yolo` apply from the next tool call on, even in
   * a running turn. Null removes a setting. The caller checks the values.
   */
  async choose(
    id: string,
    owner: string,
    choice: {
      readonly model?: string | null;
      readonly reasoningEffort?: string | null;
      readonly yolo?: boolean;
      readonly mode?: SessionMode;
    },
  ): Promise<void> {
    await this.get(id, owner);
    const { model, reasoningEffort, yolo, mode } = choice;
    await this.#store.write(async (tx) => {
      if (model !== undefined) await tx.update("sessions", { id }, { model });
      if (reasoningEffort !== undefined) {
        await changeSettings(tx, id, { reasoningEffort: reasoningEffort ?? undefined });
      }
      if (yolo !== undefined) await changeSettings(tx, id, { yolo: yolo || undefined });
      if (mode !== undefined) await changeSettings(tx, id, { mode });
      await this.#update(
        tx,
        { id, owner },
        {
          ...(model === undefined ? {} : { model }),
          ...(reasoningEffort === undefined ? {} : { reasoning_effort: reasoningEffort }),
          ...(yolo === undefined ? {} : { yolo }),
          ...(mode === undefined ? {} : { mode }),
        },
      );
    });
  }

  /**
   * Changes several settings of a session at once; null restores a default. Resolves to the row after the change.
   * `check` gets the current row inside the transaction. With `dryRun` nothing is stored. ServiceError
   * `session_not_found`, `invalid_title`, and `session_busy` for a folder while a run is active.
   */
  async change(
    id: string,
    owner: string,
    change: SessionChange,
    { check, dryRun = false, actor = null }: ChangeOptions & { readonly dryRun?: boolean } = {},
  ): Promise<SessionRow> {
    const title = typeof change.title === "string" ? cleanTitle(change.title) : change.title;
    const wanted = { ...change, ...(title === undefined ? {} : { title }) };
    return writeOrTry(this.#store, { dryRun }, async (tx) => {
      const changed = await changeSession(tx, { id, owner, change: wanted, check });
      await this.#update(tx, { id, owner }, changed, actor);
      return (await tx.find("sessions", { id })) as SessionRow;
    });
  }

  /** Changes the directory of the session. ServiceError `session_busy` while a turn is running. */
  async move(id: string, owner: string, cwd: string): Promise<void> {
    await this.get(id, owner);
    await this.#store.write(async (tx) => {
      if ((await tx.update("sessions", { id, lease_owner: null }, { cwd })) === 0) throw busy();
      await this.#update(tx, { id, owner }, { cwd });
    });
  }

  /** Creates a session with a copy of this conversation; see {@link branchSession}. */
  branch(id: string, owner: string, options: BranchOptions = {}): Promise<SessionRow> {
    return this.#store.write((tx) => branchSession(tx, { id, owner, ...options }));
  }

  /**
   * Removes the newest `turns` prompts with everything after them. Resolves to the number of removed messages and the text
   * of the oldest removed prompt. ServiceError `session_busy`, and `nothing_to_undo` when fewer prompts follow the last
   * compression.
   */
  async undo(
    id: string,
    owner: string,
    turns = 1,
    { actor = null, alsoRecord }: UndoOptions = {},
  ): Promise<Undone> {
    const session = await this.get(id, owner);
    if (session.lease_owner !== null) throw busy();
    return this.#store.write(async (tx) => {
      const { context_seq: after } = (await tx.find("sessions", { id })) ?? session;
      const prompts = (await promptsOf(tx, id)).filter(({ seq }) => seq > after);
      const first = prompts.at(-turns);
      if (!first) throw new ServiceError("nothing_to_undo", `Only ${prompts.length} prompts can be undone.`);
      const removed = await truncateAt(tx, this.#store, { sessionId: id, seq: first.seq });
      const undone = { removed, prompt: textOf(first.message) };
      tx.record({ type: "session.updated", ref: id, owner, data: {}, actor });
      await alsoRecord?.(tx, undone);
      return undone;
    });
  }

  /** Returns the usage of all turns so far; undefined before the first ended. */
  usage(session: SessionRow): RunUsage | undefined {
    return session.usage === null ? undefined : (JSON.parse(session.usage) as RunUsage);
  }

  /**
   * Deletes a session with its records. `check` gets the current row inside the transaction. ServiceError `session_busy`
   * while a turn is running.
   */
  async delete(id: string, owner: string, { check, actor = null }: ChangeOptions = {}): Promise<void> {
    await this.get(id, owner);
    await this.#store.write(async (tx) => {
      const isFree = (await tx.update("sessions", { id, lease_owner: null }, { updated_at: tx.nowMs })) > 0;
      const row = await tx.find("sessions", { id });
      if (!row) throw sessionNotFound(id);
      check?.(row);
      if (!isFree) throw busy();
      for (const table of ["events", "messages", "questions", "responses", "runs"] as const) {
        await tx.db.deleteFrom(table).where("session_id", "=", id).execute();
      }
      await tx.db.deleteFrom("sessions").where("id", "=", id).execute();
      tx.record({ type: "session.deleted", ref: id, owner, data: {}, actor });
    });
  }

  /** Deletes a session in which no run was ever submitted. */
  async deleteUnused(id: string): Promise<void> {
    await this.#store.write(async (tx) => {
      if (await tx.find("runs", { session_id: id })) return;
      await tx.db.deleteFrom("messages").where("session_id", "=", id).execute();
      await tx.db.deleteFrom("sessions").where("id", "=", id).execute();
    });
  }

  /** Returns a title as it is stored. ServiceError `invalid_title`. */
  cleanTitle(title: string): string {
    return cleanTitle(title);
  }

  async #update(
    tx: Tx,
    { id, owner }: Pick<SessionRow, "id" | "owner">,
    change: SessionEventData<"session.updated">,
    actor: string | null = null,
  ): Promise<void> {
    tx.record({ type: "session.updated", ref: id, owner, data: {}, actor });
    await tx.update("sessions", { id }, { updated_at: tx.nowMs });
    await this.#store.journal.append(tx, id, [sessionEvent("session.updated", change)]);
  }
}

/**
 * Copies a conversation, up to a message, into a new branch of the session, inside `tx`. Messages of a running turn are not
 * copied; a tool call is copied with its answers. The branch has the parent's model, effort, mode and directory, but not
 * its `yolo`. ServiceError `session_not_found`, `nothing_to_branch`.
 */
export async function branchSession(
  tx: Tx,
  from: BranchOptions & { readonly id: string; readonly owner: string },
): Promise<SessionRow> {
  const parent = await tx.find("sessions", { id: from.id });
  if (parent?.owner !== from.owner) throw sessionNotFound(from.id);
  const last = await lastTaken(tx, parent, from);
  if (last === undefined) {
    throw new ServiceError("nothing_to_branch", "The session has no messages yet (nothing to branch).");
  }
  const row = await newBranch(tx, parent, { ...from, last });
  await tx.insert("sessions", [row]);
  recordCreated(tx, row, from.actor);
  await tx.db
    .insertInto("messages")
    .columns(["session_id", "seq", "run_id", "role", "content", "created_at"])
    .expression((is) =>
      is
        .selectFrom("messages")
        .select((of) => [of.val(row.id).as("session_id"), "seq", "run_id", "role", "content", "created_at"])
        .where("session_id", "=", parent.id)
        .where("seq", "<=", last),
    )
    .execute();
  return row;
}

async function newBranch(
  tx: Tx,
  parent: SessionRow,
  from: BranchOptions & { readonly last: number },
): Promise<SessionRow> {
  const root = parent.root_id ?? parent.id;
  const made = newSession({ owner: parent.owner }, { source: from.source ?? parent.source }, tx.nowMs);
  const row: SessionRow = {
    ...made,
    model: parent.model,
    cwd: parent.cwd,
    meta: withoutYolo(parent.meta),
    transient: 0,
    parent_id: parent.id,
    root_id: root,
    last_message: from.last,
    ...contextOf(parent, from.last),
  };
  const wanted = from.title === undefined ? parent.title : cleanTitle(from.title);
  const title = wanted === null ? null : await freeTitle(tx, row, wanted);
  return { ...row, title };
}

/** A branch before the last compression keeps its original messages in the context. */
function contextOf(parent: SessionRow, last: number): Pick<SessionRow, "context_seq" | "summary_seq"> {
  const isBehind = parent.summary_seq !== null && parent.summary_seq <= last;
  return isBehind
    ? { context_seq: parent.context_seq, summary_seq: parent.summary_seq }
    : { context_seq: 0, summary_seq: null };
}

function withoutYolo(meta: string): string {
  const { yolo: _, ...rest } = JSON.parse(meta) as Record<string, unknown>;
  return JSON.stringify(rest);
}

/** Returns the number of the last message to copy; undefined: none. */
async function lastTaken(
  tx: Tx,
  parent: SessionRow,
  { throughSeq, count }: BranchOptions,
): Promise<number | undefined> {
  const rows = await tx.db
    .selectFrom("messages")
    .leftJoin("runs", "runs.id", "messages.run_id")
    .select(["messages.seq", "messages.role", "messages.run_id", "runs.ended_at", "runs.id as run"])
    .where("messages.session_id", "=", parent.id)
    .orderBy("messages.seq")
    .execute();
  // Retention deletes runs after they end; a message without a run belongs to no running turn.
  const complete = rows.filter(({ run, ended_at }) => run === null || ended_at !== null);
  const until = complete.findLastIndex(
    ({ seq }, index) =>
      (throughSeq === undefined || seq <= throughSeq) && (count === undefined || index < count),
  );
  if (until < 0) return undefined;
  let last = until;
  // A later turn may begin with a client's tool output, which does not belong to this message.
  const isAnswer = (at: number) =>
    complete[at]?.role === "tool" && complete[at]?.run_id === complete[until]?.run_id;
  while (isAnswer(last + 1)) last++;
  return complete[last]?.seq;
}

/** An open session that may not be saved yet. */
export interface Unsaved {
  readonly id: string;
  readonly owner: string;
  readonly seed: SessionSeed;
}

/**
 * Saves a session before its first prompt, with earlier messages. An existing row stays as it is, whatever its owner.
 */
export async function saveSession(
  store: Store,
  { id, owner, seed }: Unsaved,
  messages: readonly Message[] = [],
): Promise<SessionRow> {
  return store.write(async (tx) => {
    const known = await tx.find("sessions", { id });
    if (known) return known;
    const row = { ...newSession({ owner, id }, seed, tx.nowMs), last_message: messages.length };
    await tx.insert("sessions", [row]);
    recordCreated(tx, row);
    const rows = messages.map((message, index) => ({
      session_id: id,
      seq: index + 1,
      run_id: null,
      role: message.role,
      content: JSON.stringify(message),
      created_at: tx.nowMs,
    }));
    if (rows.length > 0) await tx.insert("messages", rows);
    return row;
  });
}

/** Returns the prompts of a session, oldest first, inside `tx`, without summaries and steering. */
export async function promptsOf(tx: Tx, sessionId: string): Promise<readonly NumberedMessage[]> {
  const rows = await tx.db
    .selectFrom("messages")
    .select(["seq", "content"])
    .where("session_id", "=", sessionId)
    .where("role", "=", "user")
    .orderBy("seq")
    .execute();
  return rows
    .map(({ seq, content }) => ({ seq, message: JSON.parse(content) as Message }))
    .filter(({ message }) => message.role === "user" && message.origin === undefined);
}

/**
 * Removes a message and everything after it, inside `tx`. Resolves to the number of removed messages. ServiceError
 * `session_busy` while a turn is running.
 */
export async function truncateAt(
  tx: Tx,
  store: Store,
  from: { readonly sessionId: string; readonly seq: number },
): Promise<number> {
  const { sessionId: id, seq } = from;
  if ((await tx.update("sessions", { id, lease_owner: null }, { updated_at: tx.nowMs })) === 0) {
    throw new ServiceError("session_busy", "The session is busy. Stop its turn first.");
  }
  const session = await tx.find("sessions", { id });
  // A summary that was written later stays: it covers earlier messages.
  const kept = session?.summary_seq ?? 0;
  const gone = await tx.db
    .selectFrom("messages")
    .select((is) => is.fn.countAll<number | string>().as("count"))
    .where("session_id", "=", id)
    .where("seq", ">=", seq)
    .where("seq", "!=", kept)
    .executeTakeFirstOrThrow();
  await tx.db
    .deleteFrom("messages")
    .where("session_id", "=", id)
    .where("seq", ">=", seq)
    .where("seq", "!=", kept)
    .execute();
  const removed = Number(gone.count);
  await store.journal.append(tx, id, [sessionEvent("session.undone", { removed })]);
  return removed;
}

/** Removes the messages of a run, inside the transaction that ends it. */
export async function removeTurn(
  tx: Tx,
  store: Store,
  { id: runId, session_id: id }: Pick<RunRow, "id" | "session_id">,
): Promise<void> {
  const session = await tx.find("sessions", { id });
  // A summary covers earlier messages.
  const kept = session?.summary_seq ?? 0;
  const { numDeletedRows } = await tx.db
    .deleteFrom("messages")
    .where("session_id", "=", id)
    .where("run_id", "=", runId)
    .where("seq", "!=", kept)
    .executeTakeFirst();
  await store.journal.append(tx, id, [sessionEvent("session.undone", { removed: Number(numDeletedRows) })]);
}

/** What a new session is given. */
export interface NewSession {
  readonly owner: string;
  /** The owner's name for it, checked; absent: the server makes an id. */
  readonly name?: string;
  readonly key?: string;
  readonly seed: SessionSeed;
  /** Who creates it, for the feed: the name of a key. */
  readonly actor: string;
}

/** Creates an empty session inside `tx`. ServiceError `session_exists`. */
export async function createSession(
  tx: Tx,
  { owner, name, key, seed, actor }: NewSession,
): Promise<SessionRow> {
  const address = { owner, ...(name === undefined ? {} : { name }), ...(key === undefined ? {} : { key }) };
  const row = newSession(address, { ...seed, transient: false }, tx.nowMs);
  // Two requests may name the same new session at once.
  await lockName(tx, JSON.stringify(["session", row.id]));
  if (await tx.find("sessions", { id: row.id })) {
    const what = `Session ${JSON.stringify(name)} exists. Choose another id, or use that session.`;
    throw new ServiceError("session_exists", what, { param: "id" });
  }
  await tx.insert("sessions", [row]);
  recordCreated(tx, row, actor);
  return row;
}
