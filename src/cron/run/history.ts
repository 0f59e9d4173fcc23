/** What became of jobs, page by page. */
import { ServiceError } from "../../base/errors.ts";
import type { Store } from "../../store/store.ts";
import { toOccurrence, type Occurrence } from "../tick/occurrence.ts";

export interface HistoryPage {
  /** Default 20, at most 500. */
  readonly limit?: number | undefined;
  /** What the page before gave as `nextCursor`. */
  readonly cursor?: string | undefined;
}

export interface History {
  /** Newest first; what has no end yet is at work. */
  readonly occurrences: readonly Occurrence[];
  /** Absent on the last page. */
  readonly nextCursor?: string;
}

const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 500;
const OCCURRENCE_ID = /^occ_[0-9a-z]{26}$/;

export async function readHistory(
  store: Store,
  jobId: string | undefined,
  { limit = DEFAULT_LIMIT, cursor }: HistoryPage,
): Promise<History> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT) {
    throw new ServiceError("invalid_request", `limit is a whole number from 1 to ${MAX_LIMIT}.`, {
      param: "limit",
    });
  }
  let query = store.read.selectFrom("occurrences").selectAll();
  if (jobId !== undefined) query = query.where("job_id", "=", jobId);
  if (cursor !== undefined) query = query.where("id", "<", requireCursor(cursor));
  const rows = await query
    .orderBy("id", "desc")
    .limit(limit + 1)
    .execute();
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return {
    occurrences: page.map(toOccurrence),
    ...(rows.length > limit && last ? { nextCursor: last.id } : {}),
  };
}

function requireCursor(cursor: string): string {
  if (OCCURRENCE_ID.test(cursor)) return cursor;
  throw new ServiceError("invalid_cursor", "The cursor is not one that a history gave.", { param: "cursor" });
}
