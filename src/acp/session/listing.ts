/** Pages of one listing: each session once, whatever happens to the sessions meanwhile. */
/** What a client gives back for the next page. */
export interface ListCursor {
  readonly listing: string;
  /** 0 for the first. */
  readonly page: number;
  /** Of the saved sessions; undefined: none of them was on a page yet. */
  readonly key: string | undefined;
}

/** A listing that is under way. One that is forgotten goes on without what is remembered here. */
export interface Listing {
  readonly id: string;
  /** What changed later than this was moved before the pages that were given. */
  sinceMs: number | undefined;
  /** Numbers of the pages on which sessions were. */
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

/** Whether a session was on an earlier page; a page that is asked for again is the same again. */
export function wasBefore({ seen }: Listing, id: string, page: number): boolean {
  const on = seen.get(id);
  return on !== undefined && on < page;
}

export function noteSeen({ seen }: Listing, ids: readonly string[], page: number): void {
  for (const id of ids) if (seen.size < MAX_SEEN && !seen.has(id)) seen.set(id, page);
}

export function formatCursor({ listing, page, key }: ListCursor): string {
  return Buffer.from(JSON.stringify([listing, page, key ?? null])).toString("base64url");
}

/** Undefined for what is no cursor of ours. */
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
