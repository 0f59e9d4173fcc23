import type { RunUsage } from "../../generated/http/client/types.gen.ts";
import { ServiceError } from "../base/errors.ts";
import type { Store, Tx } from "../store/store.ts";
import type { SessionRow } from "../store/tables.ts";
import { branchSession, type BranchOptions } from "./branch.ts";
import { sessionEvent, type SessionEventData } from "./event.ts";
import { readTranscript } from "./history.ts";
import { textOf } from "./message.ts";
import { changeSettings, sessionNotFound } from "./session.ts";
import { cleanTitle, freeTitle } from "./title.ts";

/** A saved session as lists show it. */
export interface SessionSummary {
  readonly id: string;
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
  /** Give it as `cursor` for the next page; undefined: this was the last one. */
  readonly nextCursor: string | undefined;
}

export interface ListOptions {
  readonly owner: string;
  /** At most 200; default 50. */
  readonly limit?: number;
  readonly cursor?: string;
  readonly source?: string;
  /** Only those with exactly this title. */
  readonly title?: string;
}

const MAX_PAGE = 200;
const PREVIEW_CHARACTERS = 80;
/** Sessions that other sessions made for their own work. */
const INTERNAL_SOURCES = ["subagent", "background"];

/** Saved sessions: find, list, name, branch, take back, delete. What is open in a process is another matter, see live.ts. */
export class Sessions {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** ServiceError `session_not_found`, for others' sessions too. */
  async get(id: string, owner: string): Promise<SessionRow> {
    const row = await this.#store.read
      .selectFrom("sessions")
      .selectAll()
      .where("id", "=", id)
      .executeTakeFirst();
    if (row?.owner !== owner) throw sessionNotFound(id);
    return row;
  }

  /** By id, else by exact title: the newest of that name. ServiceError `session_not_found`. */
  async find(idOrTitle: string, owner: string): Promise<SessionRow> {
    const rows = await this.#store.read
      .selectFrom("sessions")
      .selectAll()
      .where("owner", "=", owner)
      .where((is) => is.or([is("id", "=", idOrTitle), is("title", "=", idOrTitle)]))
      .orderBy("updated_at", "desc")
      .limit(10)
      .execute();
    const row = rows.find(({ id }) => id === idOrTitle) ?? rows[0];
    if (!row) throw sessionNotFound(idOrTitle);
    return row;
  }

  /** Newest first. ServiceError `invalid_cursor`. */
  async list(options: ListOptions): Promise<SessionPage> {
    const { owner, cursor, source, title } = options;
    const limit = Math.min(Math.max(1, options.limit ?? 50), MAX_PAGE);
    let query = this.#store.read
      .selectFrom("sessions")
      .selectAll()
      // A literal, so that the index of kept sessions serves.
      .where((is) => is("transient", "=", is.lit(0)))
      .where("owner", "=", owner)
      .where("source", "not in", INTERNAL_SOURCES);
    if (source !== undefined) query = query.where("source", "=", source);
    if (title !== undefined) query = query.where("title", "=", title);
    if (cursor !== undefined) {
      const { updatedAtMs, id } = parseCursor(cursor);
      // The first condition says nothing new, but lets the index be entered where the page begins.
      query = query
        .where("updated_at", "<=", updatedAtMs)
        .where((is) =>
          is.or([
            is("updated_at", "<", updatedAtMs),
            is.and([is("updated_at", "=", updatedAtMs), is("id", "<", id)]),
          ]),
        );
    }
    const rows = await query
      .orderBy("updated_at", "desc")
      .orderBy("id", "desc")
      .limit(limit + 1)
      .execute();
    const page = rows.slice(0, limit);
    const last = page.at(-1);
    const previews = await this.#previews(page.map(({ id }) => id));
    return {
      sessions: page.map((row) => summaryOf(row, previews.get(row.id) ?? "")),
      nextCursor: rows.length > limit && last ? formatCursor(last) : undefined,
    };
  }

  /**
   * Gives the session a title, unique among its branches. Resolves to the title as stored. ServiceError
   * `invalid_title` when it is empty, too long or taken.
   */
  async rename(id: string, owner: string, title: string): Promise<string> {
    const clean = cleanTitle(title);
    const session = await this.get(id, owner);
    await this.#store.write(async (tx) => {
      if ((await freeTitle(tx, session, clean)) !== clean) {
        throw new ServiceError(
          "invalid_title",
          `Another branch of this session is named ${JSON.stringify(clean)}.`,
          {
            param: "title",
          },
        );
      }
      await tx.update("sessions", { id }, { title: clean });
      await this.#tell(tx, id, { title: clean });
    });
    return clean;
  }

  /** Names a session that has no title yet; a taken title gets a number. False when it has one by now. */
  async nameOnce(id: string, title: string): Promise<boolean> {
    return this.#store.write(async (tx) => {
      const session = await tx.find("sessions", { id });
      if (!session || session.title !== null) return false;
      const free = await freeTitle(tx, session, cleanTitle(title));
      await tx.update("sessions", { id }, { title: free });
      await this.#tell(tx, id, { title: free });
      return true;
    });
  }

  /** Chooses what holds for the session from its next turn on; null takes a choice back. Values are checked by the caller. */
  async choose(
    id: string,
    owner: string,
    choice: {
      readonly model?: string | null;
      readonly reasoningEffort?: string | null;
      readonly yolo?: boolean;
    },
  ): Promise<void> {
    await this.get(id, owner);
    const { model, reasoningEffort, yolo } = choice;
    await this.#store.write(async (tx) => {
      if (model !== undefined) await tx.update("sessions", { id }, { model });
      if (reasoningEffort !== undefined) {
        await changeSettings(tx, id, { reasoningEffort: reasoningEffort ?? undefined });
      }
      if (yolo !== undefined) await changeSettings(tx, id, { yolo: yolo || undefined });
      await this.#tell(tx, id, {
        ...(model === undefined ? {} : { model }),
        ...(reasoningEffort === undefined ? {} : { reasoning_effort: reasoningEffort }),
        ...(yolo === undefined ? {} : { yolo }),
      });
    });
  }

  /** Moves the session to another directory. ServiceError `session_busy` while a turn is at work. */
  async move(id: string, owner: string, cwd: string): Promise<void> {
    await this.get(id, owner);
    await this.#store.write(async (tx) => {
      if ((await tx.update("sessions", { id, lease_owner: null }, { cwd })) === 0) throw busy();
      await this.#tell(tx, id, { cwd });
    });
  }

  /** A new session with a copy of this one's conversation; see {@link branchSession}. */
  branch(id: string, owner: string, options: BranchOptions = {}): Promise<SessionRow> {
    return this.#store.write((tx) => branchSession(tx, { id, owner, ...options }));
  }

  /**
   * Takes back the newest `turns` prompts with all that followed them. Resolves to how many messages went, and to the
   * text of the oldest prompt among them. ServiceError `session_busy`, and `nothing_to_undo` when there are no such
   * prompts behind the last compression.
   */
  async undo(
    id: string,
    owner: string,
    turns = 1,
  ): Promise<{ readonly removed: number; readonly prompt: string }> {
    const session = await this.get(id, owner);
    if (session.lease_owner !== null) throw busy();
    const { messages } = await readTranscript(this.#store, id, { limit: 10_000 });
    const live = messages.filter(({ seq }) => seq > session.context_seq);
    const prompts = live.filter(({ message }) => message.role === "user" && message.origin === undefined);
    const first = prompts.at(-turns);
    if (!first) {
      throw new ServiceError(
        "nothing_to_undo",
        `There are ${prompts.length} prompts that can be taken back.`,
      );
    }
    const gone = live.filter(({ seq }) => seq >= first.seq);
    await this.#store.write(async (tx) => {
      if ((await tx.update("sessions", { id, lease_owner: null }, { updated_at: tx.nowMs })) === 0)
        throw busy();
      // A summary that was written later stays: it speaks of what came before.
      await tx.db
        .deleteFrom("messages")
        .where("session_id", "=", id)
        .where("seq", ">=", first.seq)
        .where("seq", "!=", session.summary_seq ?? 0)
        .execute();
      await this.#store.journal.append(tx, id, [sessionEvent("session.undone", { removed: gone.length })]);
    });
    return { removed: gone.length, prompt: textOf(first.message) };
  }

  /** Figures over all turns so far; undefined before the first ended. */
  usage(session: SessionRow): RunUsage | undefined {
    return session.usage === null ? undefined : (JSON.parse(session.usage) as RunUsage);
  }

  /** Deletes a session with all that belongs to it. ServiceError `session_busy` while a turn is at work. */
  async delete(id: string, owner: string): Promise<void> {
    await this.get(id, owner);
    await this.#store.write(async (tx) => {
      if ((await tx.update("sessions", { id, lease_owner: null }, { updated_at: tx.nowMs })) === 0)
        throw busy();
      for (const table of ["events", "messages", "asks", "runs"] as const) {
        await tx.db.deleteFrom(table).where("session_id", "=", id).execute();
      }
      await tx.db.deleteFrom("sessions").where("id", "=", id).execute();
    });
  }

  async #tell(tx: Tx, id: string, change: SessionEventData<"session.updated">): Promise<void> {
    await tx.update("sessions", { id }, { updated_at: tx.nowMs });
    await this.#store.journal.append(tx, id, [sessionEvent("session.updated", change)]);
  }

  /** The start of the first prompt of each session. */
  async #previews(ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
    if (ids.length === 0) return new Map();
    const rows = await this.#store.read
      .selectFrom("messages")
      .select(["session_id", "content"])
      .where("session_id", "in", ids)
      .where("seq", "<=", FIRST_MESSAGES)
      .where("role", "=", "user")
      .orderBy("seq", "desc")
      .execute();
    return new Map(rows.map(({ session_id, content }) => [session_id, previewOf(content)]));
  }
}

/** A prompt stands among the first; before it there may be instructions. */
const FIRST_MESSAGES = 4;

function previewOf(content: string): string {
  const { text } = JSON.parse(content) as { readonly text: string };
  return Array.from(text.replace(/\s+/g, " ").trim()).slice(0, PREVIEW_CHARACTERS).join("");
}

function summaryOf(row: SessionRow, preview: string): SessionSummary {
  return {
    id: row.id,
    title: row.title,
    preview,
    source: row.source,
    model: row.model,
    cwd: row.cwd,
    messageCount: row.last_message,
    createdAtMs: row.created_at,
    updatedAtMs: row.updated_at,
    isBusy: row.lease_owner !== null,
  };
}

function formatCursor({ updated_at, id }: SessionRow): string {
  return Buffer.from(JSON.stringify([updated_at, id])).toString("base64url");
}

function parseCursor(cursor: string): { readonly updatedAtMs: number; readonly id: string } {
  try {
    const [updatedAtMs, id] = JSON.parse(Buffer.from(cursor, "base64url").toString()) as [unknown, unknown];
    if (typeof updatedAtMs === "number" && typeof id === "string") return { updatedAtMs, id };
  } catch {
    // No JSON: told below, like JSON of another form.
  }
  throw new ServiceError("invalid_cursor", "The cursor is not one that a list of sessions gave.", {
    param: "cursor",
  });
}

function busy(): ServiceError {
  return new ServiceError("session_busy", "The session is at work (session busy). Stop its turn first.");
}
