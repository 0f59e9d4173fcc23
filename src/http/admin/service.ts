import { ServiceError } from "../../base/errors.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";

/** POST /v1/service/drain */
export async function drainService(
  { body, ctx }: HttpRequest<"drainService", HttpContext>,
  { service, store, log }: HttpDeps,
): Promise<HttpResponse<"drainService">> {
  const graceSeconds = body.grace_seconds ?? service.drainMs / 1000;
  const data = { grace_seconds: graceSeconds };
  const actor = ctx.identity.name;
  await store.write((tx) =>
    tx.record({ type: "service.draining", ref: "service", owner: "default", data, actor }),
  );
  log.info("the server drains", { by: actor, grace_seconds: graceSeconds });
  service.drain(graceSeconds * 1000);
  return { status: 202, body: { object: "agent.service", state: "draining", grace_seconds: graceSeconds } };
}

/** POST /v1/backup: makes the archive in a temporary folder, then sends it. */
export async function createBackup(
  { body, ctx }: HttpRequest<"createBackup", HttpContext>,
  { service, store, log }: HttpDeps,
): Promise<HttpResponse<"createBackup">> {
  const { secrets: withSecrets = false, workspace: withWorkspace = false } = body;
  if (withSecrets && !ctx.identity.authenticated) {
    const what =
      "This server requires no API key, so it does not send secrets. Run `agentd backup --secrets` on its machine.";
    throw new ServiceError("auth_required", what, { param: "secrets" });
  }
  // Without the database, the archive would miss what it is for.
  await store.find("metadata", { key: "epoch" });
  log.info("a backup was requested", { by: ctx.identity.name, secrets: withSecrets });
  const { name, content } = await service.backUp({ withSecrets, withWorkspace });
  return {
    status: 200,
    headers: { "content-disposition": `attachment; filename="${name}"` },
    raw: content,
    contentType: "application/gzip",
  };
}
