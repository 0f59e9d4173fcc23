/** What the reads of the control API have in common: owners, the sessions that they name, pages, cursors and time windows. */
import { ServiceError } from "../../base/errors.ts";
import { findSession } from "../../agent/session/session.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";

/** A list as it is sent. */
export interface ListBody<T> {
  readonly object: "list";
  readonly data: T[];
  readonly first_id: string | null;
  readonly last_id: string | null;
  readonly has_more: boolean;
}

/**
 * Returns the body of a page. `rows` holds one row more than `limit` when another page follows; `positionOf` returns
 * what `after` takes to continue behind a row.
 */
export function listBody<Row, T>(
  rows: readonly Row[],
  limit: number,
  map: { readonly positionOf: (row: Row) => string; readonly show: (row: Row) => T },
): ListBody<T> {
  const page = rows.slice(0, limit);
  const [first, last] = [page.at(0), page.at(-1)];
  return {
    object: "list",
    data: page.map(map.show),
    first_id: first === undefined ? null : map.positionOf(first),
    last_id: last === undefined ? null : map.positionOf(last),
    has_more: rows.length > limit,
  };
}

/**
 * Returns a page of rows that are all in memory: an envelope without `data`, and its rows. ServiceError `invalid_cursor`
 * when no row is at the position `after`.
 */
export function pageOf<Row>(
  all: readonly Row[],
  { limit, after }: { readonly limit: number; readonly after?: string },
  positionOf: (row: Row) => string,
): Omit<ListBody<never>, "data"> & { readonly rows: readonly Row[] } {
  const index = after === undefined ? -1 : all.findIndex((row) => positionOf(row) === after);
  if (after !== undefined && index < 0) throw wrongCursor();
  const rows = all.slice(index + 1, index + 2 + limit);
  const { data, ...page } = listBody(rows, limit, { positionOf, show: (row) => row });
  return { ...page, rows: data };
}

/** Returns the id in `after`, whose ids begin with `prefix`. ServiceError `invalid_cursor`. */
export function idCursor(after: string | undefined, prefix: string): string | undefined {
  if (after === undefined || after.startsWith(prefix)) return after;
  throw wrongCursor();
}

/** Returns the number in `after`. ServiceError `invalid_cursor`. */
export function numberCursor(after: string | undefined): number | undefined {
  if (after === undefined) return undefined;
  if (/^\d{1,15}$/.test(after)) return Number(after);
  throw wrongCursor();
}

function wrongCursor(): ServiceError {
  const what = "after is not a position of this list. Use last_id of the previous page.";
  return new ServiceError("invalid_cursor", what, { param: "after" });
}

/** Returns whose rows the caller reads; without an owner, those of all. */
export function ownerFilter({ identity }: Pick<HttpContext, "identity">): { readonly owner?: string } {
  return identity.allOwners ? {} : { owner: identity.owner };
}

/**
 * Returns the caller's session with this id, or the only one of all owners; undefined when there is none. ServiceError
 * `session_not_found` for another owner's, and when sessions of several owners have the id.
 */
export async function findNamedSession(
  name: string,
  { identity: { owner, allOwners } }: Pick<HttpContext, "identity">,
  { store, agent }: Pick<HttpDeps, "store" | "agent">,
): Promise<SessionRow | undefined> {
  if (!allOwners) return findSession(store, { owner, name });
  const [found, ...others] = await agent.sessions.reads.named(name);
  if (others.length === 0) return found;
  const what = `Sessions of several owners have the id ${JSON.stringify(name)}. Send X-Agent-Owner with the name of one owner instead of *.`;
  throw new ServiceError("session_not_found", what, { param: "X-Agent-Owner" });
}

/**
 * Returns the stored id of the session that `session_id` names; undefined when the caller's owner has none. ServiceError
 * `invalid_request` when it is not one session of all owners: an empty list would hide that.
 */
export async function sessionFilter(
  name: string,
  ctx: Pick<HttpContext, "identity">,
  deps: Pick<HttpDeps, "store" | "agent">,
): Promise<string | undefined> {
  const session = await findNamedSession(name, ctx, deps).catch((error: unknown) => {
    if (error instanceof ServiceError && error.code === "session_not_found") return undefined;
    throw error;
  });
  if (session || !ctx.identity.allOwners) return session?.id;
  const what = `With X-Agent-Owner: *, session_id must be the full id of a session, and no other owner may use that id; ${JSON.stringify(name)} is not. Check the id, or send X-Agent-Owner with the name of its owner.`;
  throw new ServiceError("invalid_request", what, { param: "session_id" });
}

/** Throws ServiceError `insufficient_scope` when the key lacks a scope that `param` needs besides the operation's own. */
export function requireScope({ identity }: HttpContext, scope: string, param: string): void {
  if (identity.scopes.includes(scope) || identity.scopes.includes("admin")) return;
  const what = `The key ${JSON.stringify(identity.name)} has no scope ${JSON.stringify(scope)}, which ${param} needs. Add it in api_server.keys.`;
  throw new ServiceError("insufficient_scope", what, { param });
}

/** The rows of `fromMs` and later, and before `toMs`. */
export interface TimeWindow {
  readonly fromMs?: number;
  readonly toMs?: number;
}

/** Reads `from` and `to`: Unix time in seconds, in queries also RFC 3339. ServiceError `invalid_request`. */
export function timeWindow(query: {
  readonly from?: string | number;
  readonly to?: string | number;
}): TimeWindow {
  const fromMs = instant("from", query.from);
  const toMs = instant("to", query.to);
  return { ...(fromMs === undefined ? {} : { fromMs }), ...(toMs === undefined ? {} : { toMs }) };
}

const RFC_3339 = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)$/;
/** The end of the range of dates. */
const MAX_MS = 8.64e15;

function instant(param: string, given: string | number | undefined): number | undefined {
  if (given === undefined) return undefined;
  const ms = typeof given === "number" ? Math.ceil(given * 1000) : msOf(given);
  if (ms <= MAX_MS) return ms;
  const what = `${param} must be Unix time in seconds or a time of RFC 3339 such as 2026-01-31T08:00:00Z.`;
  throw new ServiceError("invalid_request", what, { param });
}

function msOf(text: string): number {
  // A `+` in a query is a space once it is decoded.
  const written = text.replace(/ (?=\d\d:\d\d$)/, "+");
  return /^\d+(?:\.\d+)?$/.test(written)
    ? Math.ceil(Number(written) * 1000)
    : RFC_3339.test(written)
      ? Date.parse(written)
      : Number.NaN;
}
