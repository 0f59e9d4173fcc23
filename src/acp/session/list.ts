import type {
  ListSessionsRequest,
  ListSessionsResponse,
  SessionInfo,
} from "@agentclientprotocol/sdk/unstable";
import {
  cursorBehind,
  sessionFolders,
  type ListOptions,
  type SessionPage,
} from "../../agent/session/list.ts";
import { ServiceError } from "../../base/errors.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { invalidParams } from "../wire/error.ts";
import { checkPath, withoutLinks } from "./folder.ts";
import {
  formatCursor,
  Listings,
  noteSeen,
  parseCursor,
  wasBefore,
  type ListCursor,
  type Listing,
} from "./listing.ts";
import type { AcpDeps } from "../deps.ts";

const PAGE = 50;

/** A session as far as the list goes. */
interface Listed {
  readonly id: string;
  /** Undefined: nobody said or named anything yet. */
  readonly title: string | undefined;
  readonly cwd: string;
  readonly updatedAtMs: number;
  /** Whether it stands where the saved sessions are read from. */
  readonly isInOrder: boolean;
}

/**
 * A page of the sessions that people can go on with, newest first: those in which they said something, and those that
 * are open here. RequestError -32602 for a cursor that no page gave.
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
  const others = [...(await unprompted(connection, folder)), ...(await moved(deps, options, listing))];
  const all = unseen([...toListed(deps, saved, true), ...others], listing, page).toSorted(newestFirst);
  const shown = all.slice(0, PAGE);
  noteSeen(
    listing,
    shown.map(({ id }) => id),
    page,
  );
  listing.sinceMs ??= shown[0] && shown[0].updatedAtMs - 1;
  const isLast = all.length <= PAGE && saved.nextCursor === undefined;
  const key = all.length <= PAGE ? saved.nextCursor : behind(shown, at?.key);
  return {
    sessions: shown.map(toInfo),
    ...(isLast ? {} : { nextCursor: formatCursor({ listing: listing.id, page: page + 1, key }) }),
  };
}

/** Each once, and none that was on an earlier page. */
function unseen(all: readonly Listed[], listing: Listing, page: number): readonly Listed[] {
  const each = new Map(all.toReversed().map((session) => [session.id, session]));
  return [...each.values()].filter(({ id }) => !wasBefore(listing, id, page));
}

/** Where the saved sessions go on that had no place on a page any more. */
function behind(shown: readonly Listed[], before: string | undefined): string | undefined {
  const last = shown.findLast(({ isInOrder }) => isInOrder);
  return last ? cursorBehind(last.updatedAtMs, last.id) : before;
}

const listings = new WeakMap<AcpConnection, Listings>();

function beginOrFind(connection: AcpConnection, at: ListCursor | undefined): Listing {
  const known = listings.get(connection) ?? new Listings();
  listings.set(connection, known);
  return (at && known.find(at.listing)) ?? known.begin();
}

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

/** What changed since the listing began, which is before all of its later pages by now. */
async function moved(deps: AcpDeps, options: ListOptions, { sinceMs }: Listing): Promise<readonly Listed[]> {
  if (sinceMs === undefined) return [];
  const page = await deps.agent.sessions.list({ ...options, limit: MAX_MOVED, afterMs: sinceMs });
  return toListed(deps, page, false);
}

/** Sessions that are open here, and in which nobody said anything yet. */
async function unprompted(
  connection: AcpConnection,
  folder: FolderFilter | undefined,
): Promise<readonly Listed[]> {
  const { store } = await connection.deps();
  const listed: Listed[] = [];
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
  /** As sessions name the folder. */
  readonly stored: readonly (string | null)[];
}

/** RequestError -32602 for a path that is not absolute. */
async function folderFilter({ agent, store, owner }: AcpDeps, cwd: string): Promise<FolderFilter> {
  checkPath(cwd, "cwd");
  const real = await withoutLinks(cwd);
  const { workspace } = agent.deps.settings;
  const all = await sessionFolders(store, owner);
  const reals = await Promise.all(all.map((folder) => withoutLinks(folder ?? workspace)));
  return { real, stored: all.filter((_, index) => reals[index] === real) };
}

function toListed({ agent }: AcpDeps, { sessions }: SessionPage, isInOrder: boolean): readonly Listed[] {
  const { workspace } = agent.deps.settings;
  return sessions.map(({ id, title, preview, cwd, updatedAtMs }) => ({
    id,
    title: title ?? (preview === "" ? undefined : preview),
    cwd: cwd ?? workspace,
    updatedAtMs,
    isInOrder,
  }));
}

function newestFirst(a: Listed, b: Listed): number {
  return b.updatedAtMs - a.updatedAtMs || (a.id < b.id ? 1 : -1);
}

function toInfo({ id, title, cwd, updatedAtMs }: Listed): SessionInfo {
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
