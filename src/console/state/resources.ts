/** Lists and items of the API: read once, kept for Back, and read again when the feed says that they changed. */
import { useEffect, useMemo } from "preact/hooks";
import { firstList, followChanges, followFrom, isFollowing, listEnded, type Change } from "./feed.ts";
import { connection } from "./gateway.ts";
import { addressOf, messageOf, request } from "./session.ts";
import { createStore, useStore, type WritableStore } from "./store.ts";

type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** A page as every list of the API answers it. */
interface Page<T> {
  readonly data: readonly T[];
  readonly last_id: string | null;
  readonly has_more: boolean;
}

interface ListState<T> {
  readonly items: readonly T[];
  readonly after: string | undefined;
  readonly hasMore: boolean;
  readonly status: "loading" | "ready" | "failed";
  readonly problem: string;
  readonly isLoadingMore: boolean;
  /** Unix seconds: when it was read last. */
  readonly asOf: number;
}

export interface ListView<T> extends ListState<T> {
  readonly loadMore: () => void;
  readonly reload: () => void;
}

interface ItemState<T> {
  readonly item: T | undefined;
  readonly status: "loading" | "ready" | "failed";
  readonly problem: string;
}

export interface ItemView<T> extends ItemState<T> {
  readonly reload: () => void;
}

const PAGE_SIZE = 50;
/** Changes that come together are read together. */
const GATHER_MS = 250;
const MAX_KEPT = 40;

interface Resource {
  /** Topics of the feed whose changes concern it; with an id only those of that id. */
  readonly topics: readonly string[];
  readonly id?: string;
  readonly isList: boolean;
  shown: number;
  isStale: boolean;
  hasFailed: boolean;
  timer: ReturnType<typeof setTimeout> | undefined;
  readonly read: () => Promise<Reading>;
  /** While it is read. */
  reading: Promise<void> | undefined;
}

interface Reading {
  readonly hasFailed: boolean;
  /** Where the feed stood before, if the answer says so. */
  readonly position?: string | undefined;
}

const kept = new Map<string, Resource>();

followChanges({ onChange: mark, onGap: () => mark(undefined) });

// The feed brings changes, and not what could not be read while the gateway was away.
connection.subscribe(() => {
  if (connection.get().kind !== "open") return;
  for (const resource of kept.values()) {
    if (!resource.hasFailed) continue;
    resource.isStale = true;
    if (resource.shown > 0) void refresh(resource);
  }
});

/** Marks what a change concerns; what is shown is read again soon. Undefined: everything may have changed. */
function mark(change: Change | undefined): void {
  for (const resource of kept.values()) {
    const { topics, id } = resource;
    const isMeant = !change || (topics.includes(change.topic) && (id === undefined || id === change.id));
    if (!isMeant) continue;
    resource.isStale = true;
    if (resource.shown > 0) soon(resource);
  }
}

function soon(resource: Resource): void {
  resource.timer ??= setTimeout(() => {
    resource.timer = undefined;
    // What is no longer shown stays stale until it is.
    if (resource.shown > 0) void refresh(resource);
  }, GATHER_MS);
}

/** One read at a time: an answer that was overtaken by a later one would show what is no longer true. */
async function refresh(resource: Resource): Promise<void> {
  resource.isStale = true;
  resource.reading ??= readUntilFresh(resource).finally(() => (resource.reading = undefined));
  await resource.reading;
}

async function readUntilFresh(resource: Resource): Promise<void> {
  while (resource.isStale) {
    resource.isStale = false;
    // What is read before it is known where the feed stands has to be read again.
    if (!resource.isList) await firstList();
    const misses = !isFollowing();
    const { hasFailed, position } = await resource.read();
    resource.hasFailed = hasFailed;
    if (misses && !hasFailed && !followFrom(position)) resource.isStale = true;
    if (resource.isList) listEnded();
  }
}

/** Reads everything that is shown again, such as after the user changed something. */
export function refreshTopic(topic: string): void {
  for (const resource of kept.values()) {
    if (!resource.topics.includes(topic)) continue;
    resource.isStale = true;
    if (resource.shown > 0) void refresh(resource);
  }
}

/** Forgets an object that is about to be deleted, so that its page does not ask for it again. */
export async function forgetItem(address: string): Promise<void> {
  const key = itemKey(address);
  const resource = kept.get(key);
  kept.delete(key);
  clearTimeout(resource?.timer);
  await resource?.reading;
}

function itemKey(address: string): string {
  return `item ${address}`;
}

/** Keeps a resource while its part of the page is shown, and for Back afterwards. */
function useResource<R extends Resource>(key: string, create: () => R): R {
  const resource = useMemo(() => {
    const known = (kept.get(key) as R | undefined) ?? create();
    kept.delete(key);
    kept.set(key, known);
    for (const [old, { shown }] of kept) {
      if (kept.size <= MAX_KEPT) break;
      if (shown === 0 && old !== key) kept.delete(old);
    }
    return known;
  }, [key]);
  useEffect(() => {
    resource.shown++;
    if (resource.isStale) void refresh(resource);
    return () => void resource.shown--;
  }, [resource]);
  return resource;
}

interface ListResource<T> extends Resource {
  readonly store: WritableStore<ListState<T>>;
  readonly more: () => Promise<void>;
}

/**
 * Returns a list of the API, newest first, and follows its changes. `idOf` gives rows an id that have only a name.
 *
 * ```tsx
 * const runs = useList<Run>("/v1/runs", { status: query.get("status") ?? "" }, ["run"]);
 * ```
 */
export function useList<T extends { readonly id: string }>(
  url: string,
  query: Query,
  topics: readonly string[],
  idOf?: (row: T) => string,
): ListView<T> {
  const key = addressOf(url, {}, query);
  const resource = useResource(key, () => createList<T>({ url, query, topics, idOf }));
  const state = useStore(resource.store, (value) => value);
  return { ...state, loadMore: () => void resource.more(), reload: () => void refresh(resource) };
}

interface ListSource<T> {
  readonly url: string;
  readonly query: Query;
  readonly topics: readonly string[];
  readonly idOf: ((row: T) => string) | undefined;
}

function createList<T extends { readonly id: string }>({
  url,
  query,
  topics,
  idOf,
}: ListSource<T>): ListResource<T> {
  const store = createStore<ListState<T>>({
    items: [],
    after: undefined,
    hasMore: false,
    status: "loading",
    problem: "",
    isLoadingMore: false,
    asOf: 0,
  });
  const page = async (
    after: string | undefined,
    onHeaders: (headers: Headers) => void = () => {},
  ): Promise<Page<T>> => {
    const sent = { url, query: { limit: PAGE_SIZE, ...query, after }, onHeaders };
    const found = await request<{ url: string; query?: object }, Page<T>>(sent);
    return idOf ? { ...found, data: found.data.map((row) => ({ ...row, id: idOf(row) })) } : found;
  };
  const read = async () => {
    let position: string | undefined;
    try {
      const first = await page(undefined, (headers) => {
        position = headers.get("x-agent-event-cursor") ?? undefined;
      });
      store.update((state) => withFirstPage(state, first));
      return { hasFailed: false, position };
    } catch (error) {
      store.update((state) => failed(state, error));
      return { hasFailed: true };
    }
  };
  const more = async () => {
    const { after, isLoadingMore } = store.get();
    if (after === undefined || isLoadingMore) return;
    store.update((state) => ({ ...state, isLoadingMore: true }));
    try {
      const next = await page(after);
      store.update((state) => withNextPage(state, next));
    } catch (error) {
      store.update((state) => ({ ...failed(state, error), isLoadingMore: false }));
    }
  };
  return {
    topics,
    isList: true,
    shown: 0,
    isStale: true,
    hasFailed: false,
    timer: undefined,
    reading: undefined,
    store,
    read,
    more,
  };
}

/** The first page replaces what it covers; older rows that were loaded stay below it. */
function withFirstPage<T extends { readonly id: string }>(state: ListState<T>, page: Page<T>): ListState<T> {
  const last = page.data.at(-1)?.id;
  const overlap = state.items.findIndex(({ id }) => id === last);
  const isPart = page.has_more && overlap >= 0 && overlap < state.items.length - 1;
  const ids = new Set(page.data.map(({ id }) => id));
  const older = isPart ? state.items.slice(overlap + 1).filter(({ id }) => !ids.has(id)) : [];
  return {
    ...state,
    items: [...page.data, ...older],
    after: isPart ? state.after : (page.last_id ?? undefined),
    hasMore: isPart ? state.hasMore : page.has_more,
    status: "ready",
    problem: "",
    asOf: Date.now() / 1_000,
  };
}

function withNextPage<T extends { readonly id: string }>(state: ListState<T>, page: Page<T>): ListState<T> {
  const ids = new Set(state.items.map(({ id }) => id));
  return {
    ...state,
    items: [...state.items, ...page.data.filter(({ id }) => !ids.has(id))],
    after: page.last_id ?? undefined,
    hasMore: page.has_more,
    isLoadingMore: false,
  };
}

/** What was read before stays readable. */
function failed<S extends { status: "loading" | "ready" | "failed"; problem: string }>(
  state: S,
  error: unknown,
): S {
  return { ...state, status: state.status === "ready" ? "ready" : "failed", problem: messageOf(error) };
}

interface ItemResource<T> extends Resource {
  readonly store: WritableStore<ItemState<T>>;
}

/** Returns one object of the API, and follows its changes. `address` is its path; `id` is what the feed calls it. */
export function useItem<T>(address: string, topic: string | readonly string[], id?: string): ItemView<T> {
  const resource = useResource(itemKey(address), (): ItemResource<T> => {
    const store = createStore<ItemState<T>>({ item: undefined, status: "loading", problem: "" });
    const read = async () => {
      try {
        const item = await request<{ url: string }, T>({ url: address });
        store.update(() => ({ item, status: "ready", problem: "" }));
        return { hasFailed: false };
      } catch (error) {
        store.update((state) => failed(state, error));
        return { hasFailed: true };
      }
    };
    const topics = typeof topic === "string" ? [topic] : topic;
    const own = id === undefined ? {} : { id };
    return {
      topics,
      ...own,
      isList: false,
      shown: 0,
      isStale: true,
      hasFailed: false,
      timer: undefined,
      reading: undefined,
      store,
      read,
    };
  });
  const state = useStore(resource.store, (value) => value);
  return { ...state, reload: () => void refresh(resource) };
}
