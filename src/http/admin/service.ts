import type { BackupImport, ServiceReload, ServiceState } from "../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe.ts";
import { sha256 } from "../../base/text.ts";
import { actOnce, dryRunHeader, replayedHeader } from "../control/write.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";

/** POST /v1/service/drain */
export async function drainService(
  { headers, body, ctx }: HttpRequest<"drainService", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"drainService">> {
  const { service, store, log } = deps;
  const graceSeconds = body.grace_seconds ?? service.drainMs / 1000;
  const data = { grace_seconds: graceSeconds };
  const actor = ctx.identity.name;
  const key = headers["idempotency-key"];
  const once = { ctx, key, operation: "drainService", content: body };
  const { result, isReplayed } = await actOnce<ServiceState>(once, deps, async (record) => {
    const made: ServiceState = { object: "agent.service", state: "draining", grace_seconds: graceSeconds };
    await store.write(async (tx) => {
      await record(tx, made);
      tx.record({ type: "service.draining", ref: "service", owner: "default", data, actor });
    });
    log.info("the server drains", { by: actor, grace_seconds: graceSeconds });
    service.drain(graceSeconds * 1000);
    return made;
  });
  return { status: 202, headers: replayedHeader(isReplayed), body: result };
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

/** POST /v1/service/reload */
export async function reloadService(
  { headers, body, ctx }: HttpRequest<"reloadService", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"reloadService">> {
  const what = new Set(body.what ?? ["env", "config"]);
  const key = headers["idempotency-key"];
  const once = { ctx, key, operation: "reloadService", content: [...what].toSorted() };
  // Without the database, the change could not be in the feed: it is not made then.
  await deps.store.find("metadata", { key: "epoch" });
  const { result, isReplayed } = await actOnce<ServiceReload>(once, deps, async (record) => {
    // The configuration may refer to variables.
    const changed = what.has("env") ? await deps.service.reloadVariables() : undefined;
    const config = what.has("config") ? await (await deps.config()).reload() : undefined;
    const { applied = [], restartRequired = [] } = config ?? {};
    const made: ServiceReload = {
      object: "agent.service.reload",
      env: changed === undefined ? null : { changed },
      config: config ? { applied: [...applied], restart_required: [...restartRequired] } : null,
    };
    const actor = ctx.identity.name;
    deps.log.info("the configuration was reloaded", { by: actor, changed: applied, variables: changed ?? 0 });
    await deps.store.write(async (tx) => {
      if (key !== undefined) await record(tx, made);
      if (applied.length === 0 && !changed) return;
      const data = { changed: applied, restart_required: restartRequired };
      tx.record({ type: "config.updated", ref: "config", owner: "default", data, actor });
    });
    return made;
  });
  return { status: 200, headers: replayedHeader(isReplayed), body: result };
}

/** GET /v1/service/doctor */
export async function getDoctor(
  _: HttpRequest<"getDoctor", HttpContext>,
  { service, store }: HttpDeps,
): Promise<HttpResponse<"getDoctor">> {
  // A server without its database answers as it does elsewhere.
  await store.find("metadata", { key: "epoch" });
  const findings = await service.check();
  const worst = (["fail", "warn"] as const).find((status) => findings.some((each) => each.status === status));
  return {
    status: 200,
    body: {
      object: "agent.doctor",
      status: worst ?? "ok",
      findings: findings.map(({ name, status, detail, fix }) => {
        return { name, status, detail: redact(detail), fix: fix === undefined ? null : redact(fix) };
      }),
    },
  };
}

/** POST /v1/backup/import: nothing changes before the next start. */
export async function importBackup(
  { query, headers, rawBody, ctx }: HttpRequest<"importBackup", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"importBackup">> {
  const { store, service, log } = deps;
  await store.find("metadata", { key: "epoch" });
  if (!ctx.identity.authenticated) {
    const what =
      "This server requires no API key, so it takes no backups. Run `agentd restore` on its machine.";
    throw new ServiceError("auth_required", what);
  }
  const dryRun = query.dry_run;
  const stage = async (): Promise<BackupImport> => {
    const { files, version, created_at, database, secrets, omitted } = await service.stageRestore(rawBody, {
      dryRun,
    });
    const rest = { version, created_at, database, secrets, omitted: [...omitted] };
    return { object: "agent.backup.import", files: files.length, ...rest };
  };
  if (dryRun) return { status: 202, headers: dryRunHeader(true), body: await stage() };
  const key = headers["idempotency-key"];
  const once = { ctx, key, operation: "importBackup", content: sha256(rawBody) };
  const { result, isReplayed } = await actOnce<BackupImport>(once, deps, async (record) => {
    const made = await stage();
    log.warn("a backup replaces the home at the next start", { by: ctx.identity.name, of: made.created_at });
    if (key !== undefined) await store.write((tx) => record(tx, made));
    return made;
  });
  return { status: 202, headers: replayedHeader(isReplayed), body: result };
}
