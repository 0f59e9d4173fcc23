/** Lists of the API, over as many pages as a command wants. */

/** The most rows that the API returns at once. */
export const MAX_PAGE = 100;

interface Page<T> {
  readonly data: readonly T[];
  readonly last_id: string | null;
  readonly has_more: boolean;
}

interface PageQuery {
  readonly limit: number;
  readonly after?: string;
}

/** Returns up to `limit` rows after a cursor, by default all, and the cursor of the rows that follow; null for none. */
export async function readPages<T>(
  read: (query: PageQuery) => Promise<{ readonly data: Page<T> }>,
  { limit = Infinity, after: start }: { readonly limit?: number; readonly after?: string | undefined } = {},
): Promise<{ readonly rows: readonly T[]; readonly next: string | null }> {
  const rows: T[] = [];
  for (let after = start; ;) {
    const size = Math.min(MAX_PAGE, limit - rows.length);
    const { data: page } = await read({ limit: size, ...(after === undefined ? {} : { after }) });
    rows.push(...page.data);
    const next = page.has_more ? page.last_id : null;
    if (next === null || rows.length >= limit) return { rows, next };
    after = next;
  }
}
