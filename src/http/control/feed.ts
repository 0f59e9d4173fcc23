import type { FeedEvent, FeedFrame } from "../../../generated/http/client/types.gen.ts";
import type { SseMessage } from "../../../generated/http/contract.gen.ts";
import { nameOfId } from "../../agent/session/session.ts";
import { ServiceError } from "../../base/errors.ts";
import { CHANGE_TYPES, needsAdmin } from "../../store/feed/change.ts";
import { isAfter, type ChangeRow, type FeedPosition } from "../../store/feed/feed.ts";
import type { Store } from "../../store/store.ts";
import { operations } from "../../../generated/http/server.gen.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import { identityOf, type Identity, type KeyHolder } from "../edge/access.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";
import { framesOf, type FeedFilter } from "../local.ts";
import { listBody, ownerFilter } from "./page.ts";

const MAX_STREAMS_PER_KEY = 8;
const MAX_STREAMS = 256;
/** After this time without an event of its types, a stream gets its position. */
const BOOKMARK_MS = 60_000;

/** GET /v1/events: the changes behind a cursor, then those to come; or the stored ones as a list. */
export async function streamEvents(
  request: HttpRequest<"streamEvents", HttpContext>,
  deps: HttpDeps,
  { streams }: { readonly streams: FeedStreams },
): Promise<HttpResponse<"streamEvents">> {
  const { query, headers, ctx, raw, signal } = request;
  const types = typesFor(query.types, ctx);
  const lastEventId = headers["last-event-id"];
  const given = lastEventId === undefined || lastEventId === "" ? query.after : lastEventId;
  const param = given === query.after ? "after" : "Last-Event-ID";
  const after = given === undefined ? undefined : await parseCursor(deps.store, given, param);
  if (wantsList(raw.headers.get("accept"))) {
    return { status: 200, body: await listEvents(request, deps, { after, types }) };
  }
  const stream = await openStream({ after, types, identity: ctx.identity, signal }, deps, streams);
  return { status: 200, stream };
}

/** Follows the feed for a caller inside the process, from `after` or from now. */
export async function followFeed(
  {
    filter,
    caller,
    signal,
  }: { readonly filter: FeedFilter; readonly caller: KeyHolder; readonly signal: AbortSignal },
  deps: HttpDeps,
  streams: FeedStreams,
): Promise<AsyncIterable<FeedFrame>> {
  const identity = identityOf(caller, operations.streamEvents);
  const types = typesFor(filter.types, { identity });
  const after = filter.after === undefined ? undefined : await parseCursor(deps.store, filter.after, "after");
  return framesOf(await openStream({ after, types, identity, signal }, deps, streams));
}

/** What a stream of changes sends: the changes behind `after`, or from now on. */
interface StreamOptions {
  readonly after: FeedPosition | undefined;
  readonly types: readonly string[] | undefined;
  readonly identity: Identity;
  readonly signal: AbortSignal;
}

async function openStream(
  options: StreamOptions,
  deps: HttpDeps,
  streams: FeedStreams,
): Promise<AsyncIterable<SseMessage<FeedFrame>>> {
  const { after, identity, signal } = options;
  const release = streams.enter(identity.name);
  signal.addEventListener("abort", release, { once: true });
  const from = after ?? (await deps.store.feed.head());
  return follow({ ...options, from, release }, deps);
}

/** Returns the position of the feed now, for the header of a list that is read after this. */
export async function eventCursor({ store }: HttpDeps): Promise<string> {
  return cursorOf(store, await store.feed.head());
}

function wantsList(accept: string | null): boolean {
  return accept !== null && accept.includes("application/json") && !accept.includes("text/event-stream");
}

async function listEvents(
  { query, ctx }: HttpRequest<"streamEvents", HttpContext>,
  { store }: HttpDeps,
  from: { readonly after: FeedPosition | undefined; readonly types: readonly string[] | undefined },
) {
  const { after = { tx: 0, id: 0 }, types } = from;
  const rows = await store.feed.read({
    after,
    limit: query.limit + 1,
    ...ownerFilter(ctx),
    ...(types === undefined ? {} : { types }),
  });
  return listBody(rows, query.limit, {
    positionOf: (row) => cursorOf(store, row),
    show: (row) => toEvent(store, row),
  });
}

async function* follow(
  wanted: StreamOptions & { readonly from: FeedPosition; readonly release: () => void },
  { store, clock }: HttpDeps,
): AsyncGenerator<SseMessage<FeedFrame>> {
  const { from, types, identity, signal, release } = wanted;
  const { owner } = ownerFilter({ identity });
  const isWanted = (row: ChangeRow) =>
    (owner === undefined || row.owner === owner) && (types === undefined || types.includes(row.type));
  try {
    const cursor = cursorOf(store, from);
    yield { event: "feed.ready", id: cursor, data: { object: "feed.ready", cursor, epoch: store.epoch } };
    let sentMs = clock.now();
    const idle = (run: () => void) => clock.after(BOOKMARK_MS, run);
    for await (const { rows, position } of store.feed.follow(from, { signal, idle })) {
      for (const row of rows.filter(isWanted)) {
        const event = toEvent(store, row);
        yield { event: event.type, id: event.id, data: event };
        sentMs = clock.now();
      }
      if (clock.now() - sentMs < BOOKMARK_MS) continue;
      const bookmark = cursorOf(store, position);
      yield { event: "feed.bookmark", id: bookmark, data: { object: "feed.bookmark", cursor: bookmark } };
      sentMs = clock.now();
    }
  } finally {
    release();
  }
}

function toEvent(store: Store, row: ChangeRow): FeedEvent {
  const [kind = ""] = row.type.split(".");
  const session = row.data["session_id"];
  return {
    id: cursorOf(store, row),
    object: "event",
    type: row.type as FeedEvent["type"],
    created_at: row.created_at / 1000,
    owner: row.owner,
    actor: row.actor,
    data: {
      object: `agent.${kind}`,
      id: kind === "session" ? nameOfId(row.ref) : row.ref,
      ...row.data,
      ...(typeof session === "string" ? { session_id: nameOfId(session) } : {}),
    },
  };
}

function cursorOf({ epoch }: Store, { tx, id }: FeedPosition): string {
  return `${epoch}-${tx}-${id}`;
}

/** ServiceError `invalid_cursor` for a malformed or future position, `events_expired` for one that is no longer kept. */
async function parseCursor(store: Store, text: string, param: string): Promise<FeedPosition> {
  const [, epoch, tx, id] = /^([0-9a-f]{1,64})-(\d{1,15})-(\d{1,15})$/.exec(text) ?? [];
  if (epoch === undefined) {
    const what = `${param} is not a position of the feed. Use the id of an event.`;
    throw new ServiceError("invalid_cursor", what, { param });
  }
  const position = { tx: Number(tx), id: Number(id) };
  if (epoch !== store.epoch || isAfter(await store.feed.floor(), position)) {
    const first = await store.feed.first();
    const what =
      "The events behind this cursor are no longer kept. List the resources again, then follow from now.";
    const details = { first_id: first ? cursorOf(store, first) : null };
    throw new ServiceError("events_expired", what, { param, details });
  }
  if (!(await store.feed.isFuture(position))) return position;
  throw new ServiceError("invalid_cursor", `${param} is behind the newest event of the feed.`, { param });
}

/**
 * Returns the types that the caller gets; undefined: all. ServiceError `insufficient_scope` when it names one that needs
 * the scope admin, and those of {@link typesOf}.
 */
function typesFor(
  patterns: readonly string[] | undefined,
  { identity }: Pick<HttpContext, "identity">,
): readonly string[] | undefined {
  const types = patterns && typesOf(patterns);
  if (identity.scopes.includes("admin")) return types;
  const refused = types?.find(needsAdmin);
  if (refused === undefined) return types ?? CHANGE_TYPES.filter((type) => !needsAdmin(type));
  const what = `The key ${JSON.stringify(identity.name)} needs the scope "admin" to read ${refused}.`;
  throw new ServiceError("insufficient_scope", what, { param: "types" });
}

/** Returns the types that the patterns name. ServiceError `unsupported_parameter` for one that names none. */
function typesOf(patterns: readonly string[]): readonly string[] {
  return patterns.flatMap((pattern) => {
    const kind = pattern.endsWith(".*") ? pattern.slice(0, -1) : undefined;
    const found = CHANGE_TYPES.filter((type) =>
      kind === undefined ? type === pattern : type.startsWith(kind),
    );
    if (found.length > 0) return found;
    const what = `The type ${JSON.stringify(pattern)} does not exist. The types are: ${CHANGE_TYPES.join(", ")}.`;
    throw new ServiceError("unsupported_parameter", what, { param: "types" });
  });
}

/** Counts the open streams of each key, and of all. */
export class FeedStreams {
  readonly #counts = new Map<string, number>();
  #total = 0;

  /** Adds a stream. The returned function removes it, once. ServiceError `too_many_subscribers`. */
  enter(key: string): () => void {
    const count = this.#counts.get(key) ?? 0;
    if (count >= MAX_STREAMS_PER_KEY || this.#total >= MAX_STREAMS) {
      const what = `At most ${MAX_STREAMS_PER_KEY} streams of events are open for a key, and ${MAX_STREAMS} in all. Close one.`;
      throw new ServiceError("too_many_subscribers", what, { retryAfterSeconds: 5 });
    }
    this.#counts.set(key, count + 1);
    this.#total++;
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      this.#total--;
      const left = (this.#counts.get(key) ?? 1) - 1;
      if (left > 0) this.#counts.set(key, left);
      else this.#counts.delete(key);
    };
  }
}
