import type { Grant } from "../../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../../base/errors.ts";
import { redact } from "../../../base/observe.ts";
import type { GrantRow } from "../../../store/schema/tables.ts";
import type { HttpContext, HttpDeps } from "../../deps.ts";
import type { HttpRequest, HttpResponse } from "../../edge/contract.ts";
import { eventCursor } from "../feed.ts";
import { idCursor, listBody, ownerFilter } from "../page.ts";

/** GET /v1/grants */
export async function listGrants(
  { query, ctx }: HttpRequest<"listGrants", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listGrants">> {
  const { limit } = query;
  const after = idCursor(query.after, "grant_");
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  const idOf = (row: GrantRow) => deps.grants.idOf(row);
  const rows = await deps.grants.list(ownerFilter(ctx).owner);
  const start = after === undefined ? 0 : rows.findIndex((row) => idOf(row) === after) + 1;
  // A cursor of a revoked approval is unknown: the list begins again, and repeats rather than skips.
  const page = rows.slice(start, start + limit + 1);
  return {
    status: 200,
    headers,
    body: listBody(page, limit, { positionOf: idOf, show: (row) => toGrant(row, idOf(row)) }),
  };
}

/** DELETE /v1/grants/{grant_id} */
export async function deleteGrant(
  { path, ctx }: HttpRequest<"deleteGrant", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"deleteGrant">> {
  const { identity } = ctx;
  const idOf = (row: GrantRow) => deps.grants.idOf(row);
  const row = (await deps.grants.list(identity.owner)).find((each) => idOf(each) === path.grant_id);
  const isRevoked = row && (await deps.grants.revoke(row.owner, row.signature, identity.name));
  if (isRevoked) return { status: 200, body: { id: idOf(row), object: "agent.grant", deleted: true } };
  const what = `No permanent approval is ${JSON.stringify(path.grant_id.slice(0, 64))}.`;
  throw new ServiceError("grant_not_found", what);
}

function toGrant(row: GrantRow, id: string): Grant {
  return {
    object: "agent.grant",
    id,
    owner: row.owner,
    tool: row.tool,
    title: redact(row.title),
    created_at: row.created_at / 1000,
  };
}
