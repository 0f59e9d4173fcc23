import type { Route, WebhookResult } from "../../../../generated/http/client/types.gen.ts";
import type { WebhookRouteConfig } from "../../../../generated/config/types.gen.ts";
import { ServiceError } from "../../../base/errors.ts";
import { redact, redactValue } from "../../../base/observe.ts";
import type { Tx } from "../../../store/store.ts";
import { lastDeliveries } from "../../../webhook/queries.ts";
import type { ManagedRoute, RouteChange } from "../../../webhook/routes/service.ts";
import type { WebhookService } from "../../../webhook/service.ts";
import type { HttpContext, HttpDeps } from "../../deps.ts";
import type { HttpRequest, HttpResponse } from "../../edge/contract.ts";
import { requireRouteRights, showResult } from "./deliveries.ts";
import { eventCursor } from "../feed.ts";
import { idCursor, listBody, ownerFilter } from "../page.ts";
import { actOnce, checkVersion, dryRunHeader, etagOf, isUnchanged, replayedHeader } from "../write.ts";

/** What `after` begins with, so that no position of another list passes for a name. */
const CURSOR = "route:";

/** GET /v1/webhooks/routes */
export async function listRoutes(
  { query, ctx }: HttpRequest<"listRoutes", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listRoutes">> {
  const { limit, source, enabled } = query;
  const after = idCursor(query.after, CURSOR)?.slice(CURSOR.length);
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  const webhooks = await deps.webhooks();
  const found = (await webhooks.routes.list(ownerFilter(ctx))).filter(
    (each) =>
      (after === undefined || each.name > after) &&
      (source === undefined || source.includes(each.source)) &&
      (enabled === undefined || isEnabled(each) === enabled),
  );
  const page = found.slice(0, limit + 1);
  const shown = new Map((await showRoutes(page.slice(0, limit), deps)).map((route) => [route.name, route]));
  const show = ({ name }: ManagedRoute) => shown.get(name) as Route;
  const positionOf = ({ name }: ManagedRoute) => `${CURSOR}${name}`;
  return { status: 200, headers, body: listBody(page, limit, { positionOf, show }) };
}

/** GET /v1/webhooks/routes/{route_name} */
export async function getRoute(
  { path, headers, ctx }: HttpRequest<"getRoute", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"getRoute">> {
  const webhooks = await deps.webhooks();
  const managed = await webhooks.routes.get(path.route_name, ownerFilter(ctx));
  const etag = tagOf(managed, webhooks);
  if (isUnchanged(headers["if-none-match"], etag)) return { status: 304, headers: { etag } };
  return { status: 200, headers: { etag }, body: await showRoute(managed, deps) };
}

/** POST /v1/webhooks/routes. The secret is in the first answer only, and never stored for repeated requests. */
export async function createRoute(
  { query, headers, body, ctx }: HttpRequest<"createRoute", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"createRoute">> {
  const { name, secret: given, ...fields } = body;
  const webhooks = await deps.webhooks();
  requireRouteRights(ctx, body, webhooks);
  refuseRedacted(body);
  const dryRun = query.dry_run;
  const create = (alsoRecord?: (tx: Tx) => Promise<void>) => {
    const change = {
      ...changeBy(ctx),
      owner: ctx.identity.owner,
      dryRun,
      ...(alsoRecord ? { alsoRecord } : {}),
    };
    return webhooks.routes.create(name, { ...fields, ...(given ? { secret: given } : {}) }, change);
  };
  if (dryRun) {
    const { managed } = await create();
    return { status: 201, headers: dryRunHeader(true), body: await showRoute(managed, deps) };
  }
  // The hash of a secret could be guessed.
  const { verify_token: _, ...content } = fields;
  const once = { ctx, key: headers["idempotency-key"], operation: "createRoute", content: [name, content] };
  let secret: string | null = null;
  const { isReplayed } = await actOnce<{ readonly name: string }>(once, deps, async (record) => {
    secret = (await create((tx) => record(tx, { name }))).secret;
    return { name };
  });
  const managed = await webhooks.routes.get(name, ownerFilter(ctx));
  return {
    status: 201,
    headers: {
      etag: tagOf(managed, webhooks),
      location: `/v1/webhooks/routes/${name}`,
      ...replayedHeader(isReplayed),
    },
    body: { ...(await showRoute(managed, deps)), secret },
  };
}

/** PATCH /v1/webhooks/routes/{route_name}: a merge patch, all of it or nothing. */
export async function updateRoute(
  { path, query, headers, body, ctx }: HttpRequest<"updateRoute", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"updateRoute">> {
  const webhooks = await deps.webhooks();
  requireRouteRights(ctx, body, webhooks);
  refuseRedacted(body);
  const dryRun = query.dry_run;
  const check = (current: ManagedRoute) => checkVersion(headers["if-match"], tagOf(current, webhooks));
  const managed = await webhooks.routes.update(path.route_name, body, { ...changeBy(ctx), dryRun, check });
  return {
    status: 200,
    headers: { etag: tagOf(managed, webhooks), ...dryRunHeader(dryRun) },
    body: await showRoute(managed, deps),
  };
}

/** DELETE /v1/webhooks/routes/{route_name} */
export async function deleteRoute(
  { path, headers, ctx }: HttpRequest<"deleteRoute", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"deleteRoute">> {
  const webhooks = await deps.webhooks();
  const check = (current: ManagedRoute) => checkVersion(headers["if-match"], tagOf(current, webhooks));
  await webhooks.routes.delete(path.route_name, { ...changeBy(ctx), check });
  return { status: 200, body: { id: path.route_name, object: "agent.route", deleted: true } };
}

const DEFAULT_KEEP_SECONDS = 86_400;

/** POST /v1/webhooks/routes/{route_name}/rotate-secret */
export async function rotateRouteSecret(
  { path, headers, body, ctx }: HttpRequest<"rotateRouteSecret", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"rotateRouteSecret">> {
  const { secret: given, expire_previous_seconds: keepSeconds = DEFAULT_KEEP_SECONDS } = body;
  const name = path.route_name;
  const webhooks = await deps.webhooks();
  requireRouteRights(ctx, body, webhooks);
  const check = (current: ManagedRoute) => checkVersion(headers["if-match"], tagOf(current, webhooks));
  const key = headers["idempotency-key"];
  const once = { ctx, key, operation: "rotateRouteSecret", content: [name, keepSeconds] };
  let secret: string | null = null;
  const { isReplayed } = await actOnce<{ readonly name: string }>(once, deps, async (record) => {
    const change = { ...changeBy(ctx), check, alsoRecord: (tx: Tx) => record(tx, { name }) };
    const rotation = { secret: given ?? undefined, keepMs: keepSeconds * 1000 };
    secret = (await webhooks.routes.rotate(name, rotation, change)).secret;
    return { name };
  });
  const managed = await webhooks.routes.get(name, ownerFilter(ctx));
  const ends = webhooks.secretsOf(managed).map(({ expiresAtMs }) => expiresAtMs ?? 0);
  return {
    status: 200,
    headers: { etag: tagOf(managed, webhooks), ...replayedHeader(isReplayed) },
    body: {
      object: "agent.route.secret",
      route: name,
      secret,
      previous_expires_at: seconds(Math.max(0, ...ends) || null),
    },
  };
}

/** POST /v1/webhooks/routes/{route_name}/test: stores and sends nothing, but runs the script of the route. */
export async function testRoute(
  { path, headers, body, ctx }: HttpRequest<"testRoute", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"testRoute">> {
  const key = headers["idempotency-key"];
  // Headers and payloads may hold secrets, whose hash could be guessed.
  const once = { ctx, key, operation: "testRoute", content: [path.route_name, redactValue(body)] };
  const { result, isReplayed } = await actOnce<WebhookResult>(once, deps, async (record) => {
    const made = await runTest(path.route_name, body, ctx, deps);
    if (key !== undefined) await deps.store.write((tx) => record(tx, made));
    return made;
  });
  return { status: 200, headers: replayedHeader(isReplayed), body: result };
}

async function runTest(
  name: string,
  { payload, event, headers = {}, skip_script: skipsScript }: HttpRequest<"testRoute", HttpContext>["body"],
  ctx: HttpContext,
  deps: HttpDeps,
): Promise<WebhookResult> {
  const webhooks = await deps.webhooks();
  const managed = await webhooks.routes.get(name, ownerFilter(ctx));
  const result = await webhooks.test(webhooks.routes.usable(managed), {
    payload,
    event,
    headers: readHeaders(headers),
    why: `tested by ${ctx.identity.name}`,
    skipsScript,
  });
  return showResult(result);
}

/** Returns the headers with names in lower case. ServiceError `invalid_request` for one that HTTP cannot carry. */
function readHeaders(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => {
      try {
        return [name.toLowerCase(), new Headers([[name, value]]).get(name) ?? ""];
      } catch {
        const param = `headers.${name.slice(0, 64)}`;
        throw new ServiceError("invalid_request", `${param} is not a header of HTTP.`, { param });
      }
    }),
  );
}

function changeBy(ctx: HttpContext): RouteChange {
  return { ...ownerFilter(ctx), actor: ctx.identity.name };
}

const MASK = "[redacted]";

/** A client that sends back what it read would replace a secret by its mask. ServiceError `invalid_request`. */
function refuseRedacted(body: object): void {
  const entries: readonly [string, unknown][] = Object.entries(body);
  const found = entries.find(([, value]) => JSON.stringify(value)?.includes(MASK));
  if (!found) return;
  const [param] = found;
  const what = `${param} contains ${MASK}, which stands for a secret. Leave it out, or send the secret.`;
  throw new ServiceError("invalid_request", what, { param });
}

/** The version of what people set. Deliveries do not change it. */
function tagOf(managed: ManagedRoute, webhooks: WebhookService): string {
  const { secret: _, secrets: __, verify_token: token, ...definition } = managed.valid;
  return etagOf([managed.source, definition, token !== undefined, webhooks.secretsOf(managed)]);
}

function isEnabled({ valid }: ManagedRoute): boolean {
  return valid.enabled !== false;
}

async function showRoute(managed: ManagedRoute, deps: HttpDeps): Promise<Route> {
  const [route] = await showRoutes([managed], deps);
  return route as Route;
}

async function showRoutes(routes: readonly ManagedRoute[], deps: HttpDeps): Promise<readonly Route[]> {
  const webhooks = await deps.webhooks();
  const names = routes.map(({ name }) => name);
  const last = await lastDeliveries(deps.store, names);
  return Promise.all(
    routes.map(async (managed) => ({
      ...toRoute(managed),
      url: webhooks.urlOf(managed.name) ?? null,
      secrets: webhooks.secretsOf(managed).map(({ fingerprint, from, expiresAtMs }) => ({
        fingerprint,
        from,
        expires_at: seconds(expiresAtMs),
      })),
      issues: (await webhooks.routes.issuesOf(managed)).map(redact),
      last_delivery_at: seconds(last.get(managed.name) ?? null),
    })),
  );
}

function toRoute(managed: ManagedRoute): Omit<Route, "url" | "secrets" | "issues" | "last_delivery_at"> {
  const { name, owner, source, valid, written } = managed;
  const createdAtMs = typeof written.created_at === "string" ? Date.parse(written.created_at) : Number.NaN;
  return {
    object: "agent.route",
    name,
    owner,
    source,
    secret: null,
    created_at: Number.isNaN(createdAtMs) ? null : createdAtMs / 1000,
    has_verify_token: valid.verify_token !== undefined,
    ...toSettings(valid),
    ...toDelivery(valid),
  };
}

function toSettings(valid: Partial<WebhookRouteConfig>) {
  return {
    enabled: valid.enabled !== false,
    description: textOf(valid.description),
    events: valid.events ?? [],
    auth: valid.auth ?? "signature",
    scheme: valid.scheme ?? "auto",
    signature: objectOf(valid.signature),
    tolerance_seconds: valid.tolerance_seconds ?? 300,
    prompt: textOf(valid.prompt),
    filters: redactValue(valid.filters ?? []) as Record<string, unknown>[],
    script: valid.script ?? null,
    retry_on_script_failure: valid.retry_on_script_failure === true,
    skills: valid.skills ?? [],
    toolsets: valid.toolsets ?? null,
    trusts_sender: valid.trusts_sender === true,
    max_concurrent: valid.max_concurrent ?? null,
    coalesce: objectOf(valid.coalesce),
  };
}

function toDelivery(valid: Partial<WebhookRouteConfig>) {
  return {
    deliver: redact(valid.deliver ?? "log"),
    deliver_extra: objectOf(valid.deliver_extra) ?? {},
    deliver_only: valid.deliver_only === true,
    silent: valid.silent ?? ("deliver" as const),
    on_failure: valid.on_failure ?? null,
  };
}

const textOf = (text: string | undefined): string | null => (text === undefined ? null : redact(text));
const objectOf = (value: object | undefined): Record<string, unknown> | null =>
  value === undefined ? null : (redactValue(value) as Record<string, unknown>);
const seconds = (ms: number | null): number | null => (ms === null ? null : ms / 1000);
