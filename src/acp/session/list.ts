import { cursorBehind, type SessionPage } from "../../agent/session/session.ts";
import type {
  ListSessionsRequest,
  ListSessionsResponse,
  SessionInfo,
} from "@agentclientprotocol/sdk/unstable";
import { ServiceError } from "../../base/errors.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { invalidParams } from "../wire/error.ts";
import { checkPath, withoutLinks } from "./folder.ts";
import type { AcpDeps } from "../deps.ts";

const PAGE = 50;

/** A session in the list. */
interface ListedSession {
  readonly id: string;
  /** Undefined: the session has neither title nor message. */
  readonly title: string | undefined;
  readonly cwd: string;
  readonly updatedAtMs: number;
  /** Whether the session is at its place in the order of saved sessions. */
  readonly isInOrder: boolean;
}

/**
 * Returns a page of sessions that the user can continue, newest first: those with messages, and those open here.
 * RequestError -32602 for an invalid cursor.
 */
export async function listSessions(
  connection: AcpConnection,
  { cursor, cwd }: ListSessionsRequest,
): Promise<ListSessionsResponse> {
  const deps = await connection.deps();
  const at = cursor == null ? undefined : (parseCursor(cursor) ?? badCursor());
  const listing = beginOrFind(connection, at);
  const page = at?.page ?? 0;
  const folder = cwd == null ? undefined : await folderFilter(deps, cwd);
  const options: ListOptions = {
    owner: deps.owner,
    sources: deps.settings.listSources,
    prompted: true,
    ...(folder ? { folders: folder.stored } : {}),
  };
  const saved = await savedPage(deps, options, at?.key);
  const others = [...(await unprompted(connection, folder)), ...(await changedSince(deps, options, listing))];
  const all = unseen([...toListed(deps, saved, true), ...others], listing, page).toSorted(newestFirst);
  const shown = all.slice(0, PAGE);
  markSeen(
    listing,
    shown.map(({ id }) => id),
    page,
  );
  listing.sinceMs ??= shown[0] && shown[0].updatedAtMs - 1;
  const isLast = all.length <= PAGE && saved.nextCursor === undefined;
  const key = all.length <= PAGE ? saved.nextCursor : cursorAfter(shown, at?.key);
  return {
    sessions: shown.map(toInfo),
    ...(isLast ? {} : { nextCursor: formatCursor({ listing: listing.id, page: page + 1, key }) }),
  };
}

/** Returns each session once, without those of earlier pages. */
function unseen(all: readonly ListedSession[], listing: Listing, page: number): readonly ListedSession[] {
  const each = new Map(all.toReversed().map((session) => [session.id, session]));
  return [...each.values()].filter(({ id }) => !wasSeenEarlier(listing, id, page));
}

/** Returns the cursor behind the last saved session of this page. */
function cursorAfter(shown: readonly ListedSession[], before: string | undefined): string | undefined {
  const last = shown.findLast(({ isInOrder }) => isInOrder);
  return last ? cursorBehind(last.updatedAtMs, last.id) : before;
}

const listings = new WeakMap<AcpConnection, Listings>();

function beginOrFind(connection: AcpConnection, at: ListCursor | undefined): Listing {
  const known = listings.get(connection) ?? new Listings();
  listings.set(connection, known);
  return (at && known.find(at.listing)) ?? known.begin();
}

type ListOptions = Parameters<AcpDeps["agent"]["sessions"]["list"]>[0];

async function savedPage(
  { agent }: AcpDeps,
  options: ListOptions,
  key: string | undefined,
): Promise<SessionPage> {
  try {
    return await agent.sessions.list({
      ...options,
      limit: PAGE,
      ...(key === undefined ? {} : { cursor: key }),
    });
  } catch (error) {
    if (error instanceof ServiceError && error.code === "invalid_cursor") badCursor();
    throw error;
  }
}

const MAX_MOVED = 200;

/** Returns sessions that changed since the listing began, and so moved ahead of its later pages. */
async function changedSince(
  deps: AcpDeps,
  options: ListOptions,
  { sinceMs }: Listing,
): Promise<readonly ListedSession[]> {
  if (sinceMs === undefined) return [];
  const page = await deps.agent.sessions.list({ ...options, limit: MAX_MOVED, afterMs: sinceMs });
  return toListed(deps, page, false);
}

/** Returns the open sessions without messages. */
async function unprompted(
  connection: AcpConnection,
  folder: FolderFilter | undefined,
): Promise<readonly ListedSession[]> {
  const { store } = await connection.deps();
  const listed: ListedSession[] = [];
  for (const { id, seed, openedAtMs } of connection.sessions) {
    const row = await store.find("sessions", { id });
    if (row && row.last_message > 0) continue;
    if (folder && (await withoutLinks(seed.cwd)) !== folder.real) continue;
    const title = row?.title ?? undefined;
    listed.push({
      id,
      title,
      cwd: seed.cwd,
      updatedAtMs: row?.updated_at ?? openedAtMs,
      isInOrder: false,
    });
  }
  return listed;
}

interface FolderFilter {
  readonly real: string;
  /** The folder as sessions store it. */
  readonly stored: readonly (string | null)[];
}

/** Returns the filter for `cwd`. RequestError -32602 for a relative path. */
async function folderFilter({ agent, owner }: AcpDeps, cwd: string): Promise<FolderFilter> {
  checkPath(cwd, "cwd");
  const real = await withoutLinks(cwd);
  const { workspace } = agent.deps.settings;
  const all = await agent.sessions.reads.foldersOf(owner);
  const reals = await Promise.all(all.map((folder) => withoutLinks(folder ?? workspace)));
  return { real, stored: all.filter((_, index) => reals[index] === real) };
}

function toListed(
  { agent }: AcpDeps,
  { sessions }: SessionPage,
  isInOrder: boolean,
): readonly ListedSession[] {
  const { workspace } = agent.deps.settings;
  return sessions.map(({ id, title, preview, cwd, updatedAtMs }) => ({
    id,
    title: title ?? (preview === "" ? undefined : preview),
    cwd: cwd ?? workspace,
    updatedAtMs,
    isInOrder,
  }));
}

function newestFirst(a: ListedSession, b: ListedSession): number {
  return b.updatedAtMs - a.updatedAtMs || (a.id < b.id ? 1 : -1);
}

function toInfo({ id, title, cwd, updatedAtMs }: ListedSession): SessionInfo {
  return {
    sessionId: id,
    cwd,
    updatedAt: new Date(updatedAtMs).toISOString(),
    ...(title === undefined ? {} : { title }),
  };
}

function badCursor(): never {
  throw invalidParams("cursor", "cursor must be the nextCursor of an earlier session/list.");
}

/** Pages of one listing: each session once, whatever happens to the sessions meanwhile. */
/** The cursor of a page. */
interface ListCursor {
  readonly listing: string;
  /** 0 for the first page. */
  readonly page: number;
  /** The cursor of the saved sessions. Undefined: no page had one yet. */
  readonly key: string | undefined;
}

/** A listing in progress. A forgotten one continues without duplicate detection. */
interface Listing {
  readonly id: string;
  /** Sessions that changed after this time moved ahead of the earlier pages. */
  sinceMs: number | undefined;
  /** The page number of each session that was listed. */
  readonly seen: Map<string, number>;
}

const MAX_LISTINGS = 8;
const MAX_SEEN = 20_000;

/** The newest listings of a client. */
export class Listings {
  readonly #known = new Map<string, Listing>();

  begin(): Listing {
    const listing = { id: crypto.randomUUID(), sinceMs: undefined, seen: new Map<string, number>() };
    this.#known.set(listing.id, listing);
    for (const id of this.#known.keys()) {
      if (this.#known.size <= MAX_LISTINGS) break;
      this.#known.delete(id);
    }
    return listing;
  }

  find(id: string): Listing | undefined {
    return this.#known.get(id);
  }
}

/** Returns whether a session was on an earlier page. A repeated request gets the same page. */
export function wasSeenEarlier({ seen }: Listing, id: string, page: number): boolean {
  const on = seen.get(id);
  return on !== undefined && on < page;
}

export function markSeen({ seen }: Listing, ids: readonly string[], page: number): void {
  for (const id of ids) if (seen.size < MAX_SEEN && !seen.has(id)) seen.set(id, page);
}

export function formatCursor({ listing, page, key }: ListCursor): string {
  return Buffer.from(JSON.stringify([listing, page, key ?? null])).toString("base64url");
}

/** Returns undefined for an invalid cursor. */
export function parseCursor(cursor: string): ListCursor | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString());
    if (!Array.isArray(value) || value.length !== 3) return undefined;
    const [listing, page, key] = value as readonly unknown[];
    if (typeof listing !== "string" || !Number.isSafeInteger(page) || Number(page) < 1) return undefined;
    if (key !== null && typeof key !== "string") return undefined;
    return { listing, page: Number(page), key: key ?? undefined };
  } catch {
    return undefined;
  }
}
