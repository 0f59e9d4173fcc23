import { ServiceError } from "../../base/errors.ts";
import { pageOf } from "../control/page.ts";
import { checkVersion, dryRunHeader, isUnchanged } from "../control/write.ts";
import type { ConfigState, HttpContext, HttpDeps } from "../deps.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";

/** GET /v1/config */
export async function getConfig(
  { headers }: HttpRequest<"getConfig", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"getConfig">> {
  const state = await (await deps.config()).read();
  const etag = tagOf(state);
  if (isUnchanged(headers["if-none-match"], etag)) return { status: 304, headers: { etag } };
  const { effective, file, issues, pendingRestart } = state;
  return {
    status: 200,
    headers: { etag },
    body: {
      object: "agent.config",
      effective: { ...effective },
      file: file && { ...file },
      issues: issues.map((issue) => ({ ...issue, line: issue.line ?? null, column: issue.column ?? null })),
      pending_restart: [...pendingRestart],
    },
  };
}

/** GET /v1/config/schema */
export async function getConfigSchema(
  _request: HttpRequest<"getConfigSchema", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"getConfigSchema">> {
  return { status: 200, body: { ...(await deps.config()).schema() } };
}

/** PATCH /v1/config: a merge patch of the file, all of it or nothing. */
export async function updateConfig(
  { query, headers, body, ctx }: HttpRequest<"updateConfig", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"updateConfig">> {
  const ifMatch = headers["if-match"];
  if (ifMatch === undefined) {
    const what = "Send If-Match with the ETag of GET /v1/config, so that you overwrite no other change.";
    throw new ServiceError("precondition_required", what, { param: "If-Match" });
  }
  const dryRun = query.dry_run;
  const service = await deps.config();
  const check = (version: string) => checkVersion(ifMatch, tagOf({ version }));
  // Without the database, the change could not be in the feed: it is not made then.
  await deps.store.find("metadata", { key: "epoch" });
  const change = await service.update(body, { dryRun, check });
  if (!dryRun && change.changed.length > 0) await record(change, ctx, deps);
  return {
    status: 200,
    headers: { etag: tagOf(change), ...dryRunHeader(dryRun) },
    body: {
      object: "agent.config.change",
      changed: [...change.changed],
      applied: [...change.applied],
      restart_required: [...change.restartRequired],
    },
  };
}

/** GET /v1/variables, by name. */
export async function listVariables(
  { query, ctx }: HttpRequest<"listVariables", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listVariables">> {
  requireAuthentication(ctx);
  await deps.store.find("metadata", { key: "epoch" });
  const all = await (await deps.config()).variables();
  const { rows, ...page } = pageOf(all, query, ({ name }) => name);
  const data = rows.map(({ name, source, usedBy }) => ({
    object: "agent.variable" as const,
    name,
    is_set: source !== undefined,
    source: source ?? null,
    used_by: [...usedBy],
  }));
  return { status: 200, body: { ...page, data } };
}

/** PUT /v1/variables/{name} */
export async function putVariable(
  { path, body, ctx }: HttpRequest<"putVariable", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"putVariable">> {
  await changeVariable(path.name, body.value, ctx, deps);
  return { status: 204 };
}

/** DELETE /v1/variables/{name} */
export async function deleteVariable(
  { path, ctx }: HttpRequest<"deleteVariable", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"deleteVariable">> {
  await changeVariable(path.name, undefined, ctx, deps);
  return { status: 204 };
}

async function changeVariable(
  name: string,
  value: string | undefined,
  ctx: HttpContext,
  deps: HttpDeps,
): Promise<void> {
  requireAuthentication(ctx);
  await deps.store.find("metadata", { key: "epoch" });
  await (await deps.config()).setVariable(name, value);
  await record({ changed: [`env:${name}`], restartRequired: [] }, ctx, deps);
}

/** Without keys, anyone could change what the agent is allowed to use. ServiceError `auth_required`. */
function requireAuthentication({ identity }: HttpContext): void {
  if (identity.authenticated) return;
  const what =
    "This server requires no API key, so it shows and changes no variables. Edit the `.env` file of its home.";
  throw new ServiceError("auth_required", what);
}

async function record(
  {
    changed,
    restartRequired,
  }: { readonly changed: readonly string[]; readonly restartRequired: readonly string[] },
  { identity }: HttpContext,
  { store, log }: HttpDeps,
): Promise<void> {
  const data = { changed, restart_required: restartRequired };
  log.info("the configuration was changed", { by: identity.name, ...data });
  await store.write((tx) =>
    tx.record({ type: "config.updated", ref: "config", owner: "default", data, actor: identity.name }),
  );
}

function tagOf({ version }: Pick<ConfigState, "version">): string {
  return `"${version.slice(0, 24)}"`;
}
