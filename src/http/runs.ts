import { describeRun, findRun } from "../agent/run.ts";
import type { HttpRequest, HttpResponse } from "./contract.ts";
import type { HttpContext, HttpRoom } from "./room.ts";

/** GET /v1/runs/{run_id} */
export async function getRun(
  { path, ctx }: HttpRequest<"getRun", HttpContext>,
  { store, asks }: HttpRoom,
): Promise<HttpResponse<"getRun">> {
  const row = await findRun(store, path.run_id, ctx.identity.name);
  const open = row.status === "waiting_for_approval" ? await asks.open({ runId: row.id }) : [];
  const session = await store.read
    .selectFrom("sessions")
    .select("session_key")
    .where("id", "=", row.session_id)
    .executeTakeFirst();
  return { status: 200, body: describeRun(row, session?.session_key ?? null, open) };
}
