import { firstCharacters } from "../../base/text.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Store } from "../../store/store.ts";
import type { SessionRow } from "../../store/schema/tables.ts";

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
  /** Pass it as `cursor` for the next page; undefined: this is the last one. */
  readonly nextCursor: string | undefined;
}

export interface ListOptions {
  readonly owner: string;
  /** At most 200; default 50. */
  readonly limit?: number;
  readonly cursor?: string;
  readonly source?: string;
  /** Only sessions of these sources. */
  readonly sources?: readonly string[];
  /** Only sessions in one of these folders, as stored; null: sessions without a folder. */
  readonly folders?: readonly (string | null)[];
  /** True: only sessions with a user message. */
  readonly prompted?: boolean;
  /** Only sessions that changed later than this. */
  readonly afterMs?: number;
  /** Only sessions with exactly this title. */
  readonly title?: string;
}

const MAX_PAGE = 200;
const PREVIEW_CHARACTERS = 80;
/** Sessions that other sessions created for their own work. */
const INTERNAL_SOURCES = ["subagent", "background"];

/** Returns a page of saved sessions, newest first. ServiceError `invalid_cursor`. */
export async function listSessions(store: Store, options: ListOptions): Promise<SessionPage> {
  const { cursor } = options;
  const limit = Math.min(Math.max(1, options.limit ?? 50), MAX_PAGE);
  let query = wanted(store, options);
  if (cursor !== undefined) {
    const { updatedAtMs, id } = parseCursor(cursor);
    // The first condition is redundant, but lets the index scan begin at the page.
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
  const previews = await previewsOf(
    store,
    page.map(({ id }) => id),
  );
  return {
    sessions: page.map((row) => summaryOf(row, previews.get(row.id) ?? "")),
    nextCursor: rows.length > limit && last ? cursorBehind(last.updated_at, last.id) : undefined,
  };
}

function wanted(store: Store, { owner, source, sources, folders, prompted, afterMs, title }: ListOptions) {
  let query = store.read
    .selectFrom("sessions")
    .selectAll()
    // A literal, so that the partial index of kept sessions applies.
    .where((is) => is("transient", "=", is.lit(0)))
    .where("owner", "=", owner)
    .where("source", "not in", INTERNAL_SOURCES);
  if (source !== undefined) query = query.where("source", "=", source);
  // PostgreSQL takes no empty list.
  if (sources !== undefined) {
    query = query.where((is) => (sources.length > 0 ? is("source", "in", sources) : is.or([])));
  }
  if (title !== undefined) query = query.where("title", "=", title);
  if (afterMs !== undefined) query = query.where("updated_at", ">", afterMs);
  if (folders !== undefined) {
    const named = folders.filter((folder) => folder !== null);
    query = query.where((is) =>
      is.or([
        ...(named.length > 0 ? [is("cwd", "in", named)] : []),
        ...(named.length < folders.length ? [is("cwd", "is", null)] : []),
      ]),
    );
  }
  if (!prompted) return query;
  return query.where((is) =>
    is.exists(
      is
        .selectFrom("messages")
        .select("messages.seq")
        .whereRef("messages.session_id", "=", "sessions.id")
        .where("messages.role", "=", "user"),
    ),
  );
}

/** Returns the folders of an owner's sessions, as stored; null: some have none. */
export async function sessionFolders(store: Store, owner: string): Promise<readonly (string | null)[]> {
  const rows = await store.read
    .selectFrom("sessions")
    .select("cwd")
    .distinct()
    .where((is) => is("transient", "=", is.lit(0)))
    .where("owner", "=", owner)
    .limit(MAX_FOLDERS)
    .execute();
  return rows.map(({ cwd }) => cwd);
}

const MAX_FOLDERS = 10_000;

/** Returns the start of the first prompt of each session. */
export async function previewsOf(store: Store, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await store.read
    .selectFrom("messages")
    .select(["session_id", "content"])
    .where("session_id", "in", ids)
    .where("seq", "<=", FIRST_MESSAGES)
    .where("role", "=", "user")
    .orderBy("seq", "desc")
    .execute();
  return new Map(rows.map(({ session_id, content }) => [session_id, previewOf(content)]));
}

/** The first prompt is among these; instructions may come before it. */
const FIRST_MESSAGES = 4;

function previewOf(content: string): string {
  const { text } = JSON.parse(content) as { readonly text: string };
  return firstCharacters(text.replace(/\s+/g, " ").trim(), PREVIEW_CHARACTERS);
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

/** Returns the cursor of the page after this session. */
export function cursorBehind(updatedAtMs: number, id: string): string {
  return Buffer.from(JSON.stringify([updatedAtMs, id])).toString("base64url");
}

function parseCursor(cursor: string): { readonly updatedAtMs: number; readonly id: string } {
  try {
    const [updatedAtMs, id] = JSON.parse(Buffer.from(cursor, "base64url").toString()) as [unknown, unknown];
    if (typeof updatedAtMs === "number" && typeof id === "string") return { updatedAtMs, id };
  } catch {
    // Invalid JSON fails below, like JSON of another form.
  }
  throw new ServiceError(
    "invalid_cursor",
    "The cursor is not from a list of sessions. Use the next_cursor of the previous page.",
    {
      param: "cursor",
    },
  );
}
