/** Changes of states, as transactions record them for the feed. */
import type { RunRow, SessionRow } from "../schema/tables.ts";

/** The kinds of resources whose changes are recorded, with what may happen to them. */
export const CHANGE_TYPES = [
  "session.created",
  "session.updated",
  "session.deleted",
  "run.created",
  "run.updated",
  "question.created",
  "question.updated",
  "delivery.created",
  "delivery.updated",
  "route.created",
  "route.updated",
  "route.deleted",
  "occurrence.created",
  "occurrence.updated",
  "message.created",
  "message.updated",
  "job.created",
  "job.updated",
  "job.deleted",
  "grant.created",
  "grant.deleted",
  "key.created",
  "key.updated",
  "key.deleted",
  "config.updated",
  "mcp.updated",
  "service.started",
  "service.draining",
  "service.stopped",
] as const;

/** Kinds whose changes every key may read; those of other kinds need the scope admin. */
const OPEN_KINDS: ReadonlySet<string> = new Set([
  "session",
  "run",
  "question",
  "delivery",
  "route",
  "occurrence",
  "message",
  "job",
  "grant",
]);

/** Returns whether reading changes of a type needs the scope admin. A type of a later version does. */
export function needsAdmin(type: string): boolean {
  return !OPEN_KINDS.has(type.split(".")[0] ?? "");
}

export type ChangeType = (typeof CHANGE_TYPES)[number];

/** What changes of a run say of it. None of this ever changes. */
export type ChangedRun = Pick<RunRow, "owner" | "key" | "kind" | "session_id"> & Pick<SessionRow, "source">;

/** A change of one resource. It holds no texts: read the resource by its id. */
export interface Change {
  readonly type: ChangeType;
  /** Id of the resource. */
  readonly ref: string;
  /** Absent: the owner of the run. */
  readonly owner?: string;
  /** The run that the change belongs to. Its row adds the owner, and to a change of the run itself its kind and source. */
  readonly runId?: string;
  /** That run, where the writer knows it. Absent: it is read. */
  readonly run?: ChangedRun | undefined;
  readonly data: Readonly<Record<string, unknown>>;
  /** Who made it, such as the name of a key; null: the server itself. Absent: for a new run its key. */
  readonly actor?: string | null;
}
