/** Plain stores: one value, replaced whole, and a hook that draws what it selects from it. */
import { useEffect, useReducer, useRef } from "preact/hooks";

export interface Store<T> {
  /** Returns the value: the same object until something changes. */
  readonly get: () => T;
  /** Calls `listener` after each change. Returns a function that removes it. */
  readonly subscribe: (listener: () => void) => () => void;
}

export interface WritableStore<T> extends Store<T> {
  readonly update: (change: (value: T) => T) => void;
}

export function createStore<T>(initial: T): WritableStore<T> {
  let value = initial;
  const listeners = new Set<() => void>();
  return {
    get: () => value,
    subscribe: (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    update: (change) => {
      const next = change(value);
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of listeners) listener();
    },
  };
}

/** Shortest time between two drawings: more are wasted on text that streams in. */
const PACE_MS = 50;
const HIDDEN_PACE_MS = 250;

/** Returns a store with the same value whose listeners hear at most once in 50 ms, before a frame. */
export function paced<T>(source: Store<T>): Store<T> {
  let shown = source.get();
  let isAsked = false;
  let lastMs = 0;
  const listeners = new Set<() => void>();
  const flush = () => {
    isAsked = false;
    lastMs = performance.now();
    shown = source.get();
    for (const listener of listeners) listener();
  };
  source.subscribe(() => {
    if (isAsked) return;
    isAsked = true;
    // Hidden pages get no frames.
    if (document.hidden) setTimeout(flush, HIDDEN_PACE_MS);
    else setTimeout(() => requestAnimationFrame(flush), Math.max(0, PACE_MS - (performance.now() - lastMs)));
  });
  return {
    get: () => shown,
    subscribe: (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

/** Returns what `select` finds in the store, and draws again when that changes. */
export function useStore<T, Selected>(store: Store<T>, select: (value: T) => Selected): Selected {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  const selected = select(store.get());
  const latest = useRef({ select, selected });
  latest.current = { select, selected };
  useEffect(() => {
    const check = () => {
      const { select: now, selected: drawn } = latest.current;
      if (!Object.is(now(store.get()), drawn)) draw(0);
    };
    check();
    return store.subscribe(check);
  }, [store]);
  return selected;
}
