/** Lists of saved sessions: filters and pages. */
import { ServiceError } from "../../base/errors.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { Store } from "../../store/store.ts";
import type { ListOptions, SessionReads } from "./queries.ts";
import { cursorBehind, type SessionPage, type SessionSummary } from "./session.ts";

const MAX_PAGE = 200;
/** Sessions that other sessions created for their own work. */
const INTERNAL_SOURCES = ["subagent", "background"];

/** Returns a page of saved sessions, newest first. ServiceError `invalid_cursor`. */
export async function listSessions(
  store: Store,
  reads: SessionReads,
  options: ListOptions,
): Promise<SessionPage> {
  const { rows, hasMore } = await listSessionRows(store, options);
  const last = rows.at(-1);
  const previews = await reads.previewsOf(rows.map(({ id }) => id));
  return {
    sessions: rows.map((row) => summaryOf(row, previews.get(row.id) ?? "")),
    nextCursor: hasMore && last ? cursorBehind(last.updated_at, last.id) : undefined,
  };
}

/** As {@link listSessions}, the whole rows. The cursor of a row is {@link cursorBehind} it. */
export async function listSessionRows(
  store: Store,
  options: ListOptions,
): Promise<{ readonly rows: readonly SessionRow[]; readonly hasMore: boolean }> {
  const { cursor } = options;
  const limit = Math.min(Math.max(1, options.limit ?? 50), MAX_PAGE);
  let query = wanted(store, options);
  if (cursor !== undefined) {
    const { updatedAtMs, id } = parseCursor(cursor, options.cursorParam);
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
  return { rows: rows.slice(0, limit), hasMore: rows.length > limit };
}

function wanted(store: Store, options: ListOptions) {
  const { source, sources, folders, prompted, afterMs, title } = options;
  let query = visible(store, options);
  if (source !== undefined) query = query.where("source", "=", source);
  // PostgreSQL takes no empty list.
  if (sources !== undefined) {
    query = query.where((is) => (sources.length > 0 ? is("source", "in", sources) : is.or([])));
  }
  if (title !== undefined) query = query.where("title", "=", title);
  if (afterMs !== undefined) query = query.where("updated_at", ">", afterMs);
  if (options.fromMs !== undefined) query = query.where("updated_at", ">=", options.fromMs);
  if (options.toMs !== undefined) query = query.where("updated_at", "<", options.toMs);
  query = withText(withStatus(query, options.statuses), options.text);
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

type SessionQuery = ReturnType<typeof visible>;

function withStatus(query: SessionQuery, statuses: ListOptions["statuses"]): SessionQuery {
  if (statuses === undefined) return query;
  return query.where((is) => {
    const asks = is.exists(
      is
        .selectFrom("questions")
        .select("questions.id")
        .whereRef("questions.session_id", "=", "sessions.id")
        .where("questions.status", "=", "open"),
    );
    const works = is.or([is("lease_owner", "is not", null), is("queued", ">", 0)]);
    const wanted = {
      waiting: asks,
      running: is.and([works, is.not(asks)]),
      idle: is.not(is.or([works, asks])),
    };
    return is.or(statuses.map((status) => wanted[status]));
  });
}

function withText(query: SessionQuery, text: string | undefined): SessionQuery {
  if (text === undefined) return query;
  // Neither database needs an escape for it, unlike `like`.
  return query.where((is) => {
    const title = is.fn<string>("lower", ["title"]);
    const without = is.fn<string>("replace", [title, is.val(text.toLowerCase()), is.val("")]);
    return is.or([is("id", "=", text), is(without, "!=", title)]);
  });
}

function visible({ read }: Store, { owner, all, internal, stateless }: ListOptions) {
  let query = read.selectFrom("sessions").selectAll();
  if (all === true) return query;
  // A literal, so that the partial index of kept sessions applies.
  if (stateless !== true) query = query.where((is) => is("transient", "=", is.lit(0)));
  if (owner !== undefined) query = query.where("owner", "=", owner);
  return internal === true ? query : query.where("source", "not in", INTERNAL_SOURCES);
}

function summaryOf(row: SessionRow, preview: string): SessionSummary {
  return {
    id: row.id,
    owner: row.owner,
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

function parseCursor(
  cursor: string,
  param = "cursor",
): { readonly updatedAtMs: number; readonly id: string } {
  try {
    const [updatedAtMs, id] = JSON.parse(Buffer.from(cursor, "base64url").toString()) as [unknown, unknown];
    if (typeof updatedAtMs === "number" && typeof id === "string") return { updatedAtMs, id };
  } catch {
    // Invalid JSON fails below, like JSON of another form.
  }
  throw new ServiceError(
    "invalid_cursor",
    "The cursor is not from a list of sessions. Use the one of the previous page.",
    { param },
  );
}
