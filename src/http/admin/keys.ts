import type { ApiKey } from "../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { configuredKeyEntry, keyEntry as toEntry } from "../../store/keys/format.ts";
import type { KeyEdit } from "../../store/keys/keys.ts";
import type { ApiKeyRow } from "../../store/schema/tables.ts";
import type { Tx } from "../../store/store.ts";
import { eventCursor } from "../control/feed.ts";
import { listBody } from "../control/page.ts";
import {
  actOnce,
  checkVersion,
  dryRunHeader,
  etagOf,
  isUnchanged,
  replayedHeader,
} from "../control/write.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";

type Scope = ApiKey["scopes"][number];

const keyEntry = (row: ApiKeyRow, nowMs: number): ApiKey => toEntry<Scope>(row, nowMs);

/** GET /v1/keys: the keys in the database, then those of the configuration. */
export async function listKeys(
  { query, ctx }: HttpRequest<"listKeys", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listKeys">> {
  requireKeys(ctx);
  const { limit, after, owner, status = ["active", "expired"] } = query;
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  const nowMs = deps.clock.now();
  const configured = configuredKeys(deps)
    .filter((key) => status.includes("active") && (owner === undefined || key.owner === owner))
    .filter(({ id }) => after === undefined || after.startsWith("key_") || id > after);
  const stored =
    after === undefined || after.startsWith("key_")
      ? await (
          await deps.apiKeys()
        ).list(
          {
            statuses: status,
            limit: limit + 1,
            ...(owner === undefined ? {} : { owner }),
            ...(after === undefined ? {} : { before: after }),
          },
          nowMs,
        )
      : requireCursor(after, deps);
  const keys = [...stored.map((row) => keyEntry(row, nowMs)), ...configured].slice(0, limit + 1);
  const body = listBody(keys, limit, { positionOf: ({ id }) => id, show: (key) => key });
  return { status: 200, headers, body };
}

/** GET /v1/keys/{key_id} */
export async function getKey(
  { path, headers, ctx }: HttpRequest<"getKey", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"getKey">> {
  requireKeys(ctx);
  const key = await findKey(path.key_id, deps);
  const etag = tagOf(key);
  if (isUnchanged(headers["if-none-match"], etag)) return { status: 304, headers: { etag } };
  return { status: 200, headers: { etag }, body: key };
}

/** POST /v1/keys. The value is in the first answer only, and never stored for repeated requests. */
export async function createKey(
  { query, headers, body, ctx }: HttpRequest<"createKey", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"createKey">> {
  requireKeys(ctx);
  const dryRun = query.dry_run;
  const keys = await deps.apiKeys();
  const input = {
    name: body.name,
    owner: body.owner ?? body.name,
    scopes: body.scopes,
    rateLimitRpm: body.rate_limit_rpm ?? null,
    maxConcurrentRuns: body.max_concurrent_runs ?? null,
    dayBudgetUsd: body.day_budget_usd ?? null,
    expiresAtMs: toMs(body.expires_at) ?? null,
  };
  const edit = editBy(ctx, { dryRun });
  if (dryRun) {
    const { row } = await keys.create(input, edit);
    return { status: 201, headers: dryRunHeader(true), body: keyEntry(row, deps.clock.now()) };
  }
  const once = { ctx, key: headers["idempotency-key"], operation: "createKey", content: body };
  let secret: string | null = null;
  const { result, isReplayed } = await actOnce<{ readonly id: string }>(once, deps, async (record) => {
    const made = await keys.create(input, { ...edit, alsoRecord: (tx, id) => record(tx, { id }) });
    secret = made.secret;
    return { id: made.row.id };
  });
  const key = { ...(await findKey(result.id, deps)), key: secret };
  return {
    status: 201,
    headers: { etag: tagOf(key), location: `/v1/keys/${key.id}`, ...replayedHeader(isReplayed) },
    body: key,
  };
}

/** PATCH /v1/keys/{key_id} */
export async function updateKey(
  { path, query, headers, body, ctx }: HttpRequest<"updateKey", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"updateKey">> {
  requireKeys(ctx);
  const dryRun = query.dry_run;
  const { scopes, rate_limit_rpm: rpm, max_concurrent_runs: runs, expires_at: expires } = body;
  const { day_budget_usd: dayBudgetUsd } = body;
  const change = {
    ...(scopes === undefined ? {} : { scopes }),
    ...(rpm === undefined ? {} : { rateLimitRpm: rpm }),
    ...(runs === undefined ? {} : { maxConcurrentRuns: runs }),
    ...(dayBudgetUsd === undefined ? {} : { dayBudgetUsd }),
    ...(expires === undefined ? {} : { expiresAtMs: toMs(expires) ?? null }),
  };
  const edit = editBy(ctx, { dryRun, ifMatch: headers["if-match"] });
  const key = keyEntry(await (await deps.apiKeys()).update(path.key_id, change, edit), deps.clock.now());
  return { status: 200, headers: { etag: tagOf(key), ...dryRunHeader(dryRun) }, body: key };
}

/** DELETE /v1/keys/{key_id} */
export async function deleteKey(
  { path, headers, ctx }: HttpRequest<"deleteKey", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"deleteKey">> {
  requireKeys(ctx);
  const keys = await deps.apiKeys();
  const { id } = await keys.revoke(path.key_id, editBy(ctx, { ifMatch: headers["if-match"] }));
  return { status: 200, body: { id, object: "agent.key", deleted: true } };
}

const DEFAULT_KEEP_SECONDS = 300;

/** POST /v1/keys/{key_id}/rotate */
export async function rotateKey(
  { path, headers, body, ctx }: HttpRequest<"rotateKey", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"rotateKey">> {
  requireKeys(ctx);
  const id = path.key_id;
  const keepSeconds = body.expire_previous_seconds ?? DEFAULT_KEEP_SECONDS;
  const keys = await deps.apiKeys();
  const edit = editBy(ctx, { ifMatch: headers["if-match"] });
  const once = { ctx, key: headers["idempotency-key"], operation: "rotateKey", content: [id, keepSeconds] };
  let secret: string | null = null;
  const { isReplayed } = await actOnce<{ readonly id: string }>(once, deps, async (record) => {
    const alsoRecord = (tx: Tx) => record(tx, { id });
    secret = (await keys.rotate(id, keepSeconds * 1000, { ...edit, alsoRecord })).secret;
    return { id };
  });
  const key = { ...(await findKey(id, deps)), key: secret };
  return { status: 200, headers: { etag: tagOf(key), ...replayedHeader(isReplayed) }, body: key };
}

/** Without keys, anyone could make one and keep it. ServiceError `auth_required`. */
function requireKeys({ identity }: HttpContext): void {
  if (identity.authenticated) return;
  const what = "This server requires no API key, so it has none to manage. Set api_server.key to a real key.";
  throw new ServiceError("auth_required", what);
}

function editBy(
  { identity }: HttpContext,
  { dryRun = false, ifMatch }: { readonly dryRun?: boolean; readonly ifMatch?: string | undefined },
): KeyEdit {
  const check = (row: ApiKeyRow) => checkVersion(ifMatch, tagOf(keyEntry(row, 0)));
  return { actor: identity.name, dryRun, check };
}

async function findKey(id: string, deps: HttpDeps): Promise<ApiKey> {
  const configured = configuredKeys(deps).find((key) => key.id === id);
  return configured ?? keyEntry(await (await deps.apiKeys()).get(id), deps.clock.now());
}

/** A position behind the stored keys names a configured one. ServiceError `invalid_cursor`. */
function requireCursor(after: string, deps: HttpDeps): readonly ApiKeyRow[] {
  if (configuredKeys(deps).some(({ id }) => id === after)) return [];
  const what = "after is not a position of this list. Use last_id of the previous page.";
  throw new ServiceError("invalid_cursor", what, { param: "after" });
}

function configuredKeys({ keys }: HttpDeps): readonly ApiKey[] {
  return (keys.holders ?? [])
    .map((key) => configuredKeyEntry<Scope>(key))
    .toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

/** The version of what people set, and of the value. Use does not change it. */
function tagOf({ id, scopes, rate_limit_rpm, max_concurrent_runs, day_budget_usd, ...rest }: ApiKey): string {
  const { expires_at: expires, redacted_value: value, revoked_at: revoked } = rest;
  return etagOf([id, scopes, rate_limit_rpm, max_concurrent_runs, day_budget_usd, expires, value, revoked]);
}

const toMs = (seconds: number | null | undefined): number | undefined =>
  seconds === null || seconds === undefined ? undefined : Math.round(seconds * 1000);
