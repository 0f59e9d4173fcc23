import { ServiceError } from "../../../base/errors.ts";
import { redact } from "../../../base/observe.ts";
import { occurrenceEntry, toOccurrence } from "../../../cron/job/format.ts";
import {
  listMessagesOf,
  listOccurrences as readOccurrences,
  type SentMessage,
} from "../../../cron/queries.ts";
import { readOutput } from "../../../cron/run/end.ts";
import { OUTPUT_TARGET } from "../../../cron/run/result.ts";
import type { OccurrenceRow } from "../../../store/schema/tables.ts";
import type { HttpContext, HttpDeps } from "../../deps.ts";
import type { HttpRequest, HttpResponse } from "../../edge/contract.ts";
import { eventCursor } from "../feed.ts";
import { idCursor, listBody, ownerFilter, timeWindow } from "../page.ts";

/** GET /v1/occurrences: the newest claim first. */
export async function listOccurrences(
  { query, ctx }: HttpRequest<"listOccurrences", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listOccurrences">> {
  const { limit, include } = query;
  const before = idCursor(query.after, "occ_");
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  const rows = await readOccurrences(deps.store, {
    ...ownerFilter(ctx),
    ...timeWindow(query),
    jobId: query.job_id,
    statuses: query.status,
    causes: query.cause,
    timings: query.timing,
    deliveryStatuses: query.delivery_status,
    before,
    limit: limit + 1,
  });
  const messages = await messagesFor(rows.slice(0, limit), include, deps);
  const show = (row: OccurrenceRow) => occurrenceEntry(toOccurrence(row), messages?.(row.id));
  return { status: 200, headers, body: listBody(rows, limit, { positionOf: ({ id }) => id, show }) };
}

/** GET /v1/occurrences/{occurrence_id} */
export async function getOccurrence(
  { path, query, ctx }: HttpRequest<"getOccurrence", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"getOccurrence">> {
  const row = await findOccurrence(path.occurrence_id, ctx, deps);
  const messages = await messagesFor([row], query.include, deps);
  return { status: 200, body: occurrenceEntry(toOccurrence(row), messages?.(row.id)) };
}

/** GET /v1/occurrences/{occurrence_id}/output */
export async function getOccurrenceOutput(
  { path, ctx }: HttpRequest<"getOccurrenceOutput", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"getOccurrenceOutput">> {
  const { job_id: jobId, output_file: file } = await findOccurrence(path.occurrence_id, ctx, deps);
  const text = file === null ? undefined : await readOutput(deps.jobs.outputFolder, { jobId, file });
  if (text === undefined) {
    const what =
      "The occurrence has no output here: it is not written yet, was deleted, or is on another machine.";
    throw new ServiceError("occurrence_not_found", what);
  }
  return { status: 200, raw: redact(text), contentType: "text/markdown; charset=utf-8" };
}

/** Returns a function with the messages of each row; undefined when they are not wanted. */
async function messagesFor(
  rows: readonly OccurrenceRow[],
  include: readonly string[] | undefined,
  { store }: HttpDeps,
): Promise<((id: string) => readonly SentMessage[]) | undefined> {
  if (!include?.includes("messages")) return undefined;
  const all = await listMessagesOf(
    store,
    rows.map(({ id }) => id),
  );
  // The output file is not a message.
  return (id) => all.filter(({ ref, target }) => ref === id && target !== OUTPUT_TARGET);
}

/** Returns an occurrence of the caller's owner. ServiceError `occurrence_not_found`. */
async function findOccurrence(
  id: string,
  { identity }: HttpContext,
  { store }: HttpDeps,
): Promise<OccurrenceRow> {
  const row = await store.find("occurrences", { id });
  if (row && (identity.allOwners || row.owner === identity.owner)) return row;
  throw new ServiceError("occurrence_not_found", `Occurrence ${JSON.stringify(id)} does not exist.`);
}
