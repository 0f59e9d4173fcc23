import type { HttpRequest, HttpResponse } from "../edge/contract.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";

/** POST /api/auth/ws-ticket */
export function createSocketTicket(
  { ctx: { identity } }: HttpRequest<"createSocketTicket", HttpContext>,
  { tickets }: HttpDeps,
): HttpResponse<"createSocketTicket"> {
  const { ticket, lifeMs } = tickets.make({ owner: identity.name, scopes: identity.scopes });
  return { status: 201, body: { ticket, expires_in: lifeMs / 1000 } };
}
