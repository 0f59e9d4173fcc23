/** Addresses of the console: a table of patterns, navigation without a reload, and what Back restores. */
import { createStore, type Store } from "./state/store.ts";

export interface Address {
  readonly path: string;
  readonly query: URLSearchParams;
  /** Grows with each navigation; the same entry of the history has the same key. */
  readonly key: string;
}

export interface Match<Name extends string> {
  readonly name: Name;
  readonly params: Readonly<Record<string, string>>;
}

/** What a page gets of its address. */
export interface PageProps {
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
}

/**
 * Returns the first route whose pattern fits: `:name` is one part of the path, and `:name?` may be missing. Undefined for
 * an unknown path.
 */
export function matchRoute<Name extends string>(
  routes: Readonly<Record<Name, string>>,
  path: string,
): Match<Name> | undefined {
  const parts = path.split("/").filter((part) => part !== "");
  for (const [name, pattern] of Object.entries<string>(routes) as [Name, string][]) {
    const params = paramsOf(pattern, parts);
    if (params) return { name, params };
  }
  return undefined;
}

function paramsOf(pattern: string, parts: readonly string[]): Record<string, string> | undefined {
  const wanted = pattern.split("/").filter((part) => part !== "");
  const params: Record<string, string> = {};
  if (parts.length > wanted.length) return undefined;
  for (const [index, part] of wanted.entries()) {
    const given = parts[index];
    if (part.startsWith(":")) {
      if (given !== undefined) params[part.replace(/^:|\?$/g, "")] = decode(given);
      else if (!part.endsWith("?")) return undefined;
    } else if (part !== given) return undefined;
  }
  return params;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    // Not encoded as an address: the part is taken as it is.
    return part;
  }
}

const store = createStore<Address>(readAddress());
export const address: Store<Address> = store;

function readAddress(): Address {
  const { pathname, search } = globalThis.location ?? { pathname: "/", search: "" };
  const { key = "0" } = (globalThis.history?.state ?? {}) as { readonly key?: string };
  return { path: pathname, query: new URLSearchParams(search), key };
}

/** Opens an address of the console. `replace` keeps Back as it is. */
export function navigate(to: string, { replace = false }: { readonly replace?: boolean } = {}): void {
  const { key } = store.get();
  const state = { key: replace ? key : String(Date.now()) };
  if (replace) history.replaceState(state, "", to);
  else history.pushState(state, "", to);
  store.update(readAddress);
}

/** Changes parameters of the address; empty values are removed. Back does not stop at each of them. */
export function setQuery(changes: Readonly<Record<string, string | undefined>>): void {
  const { path, query } = store.get();
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === "") next.delete(name);
    else next.set(name, value);
  }
  navigate(next.size === 0 ? path : `${path}?${next}`, { replace: true });
}

/** Follows links of the console without a reload, and Back and Forward. */
export function startRouter(): void {
  if ((history.state as { key?: string } | null)?.key === undefined) history.replaceState({ key: "0" }, "");
  globalThis.addEventListener("popstate", () => store.update(readAddress));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest?.("a");
    if (!link || link.target !== "" || link.origin !== location.origin || link.hasAttribute("download"))
      return;
    if (isServerPath(link.pathname)) return;
    event.preventDefault();
    navigate(link.pathname + link.search);
  });
}

/** Paths that the API answers, not the console. */
function isServerPath(path: string): boolean {
  return /^\/(docs|v1|api|health|metrics|openapi\.json|login|_console)(\/|$)/.test(path);
}
