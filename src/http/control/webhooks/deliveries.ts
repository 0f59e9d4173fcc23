import type {
  Delivery as ShownDelivery,
  DeliveryStage,
  ReplayResult,
  WebhookResult,
} from "../../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../../base/errors.ts";
import { redact } from "../../../base/observe.ts";
import { Deliveries, type Delivery, type DeliverySummary } from "../../../webhook/deliveries/deliveries.ts";
import { listReplayable } from "../../../webhook/queries.ts";
import type { StageResult } from "../../../webhook/receive/evaluate.ts";
import type { RehearsalResult, WebhookService } from "../../../webhook/service.ts";
import type { HttpContext, HttpDeps } from "../../deps.ts";
import type { HttpRequest, HttpResponse } from "../../edge/contract.ts";
import { eventCursor } from "../feed.ts";
import { idCursor, listBody, ownerFilter, timeWindow } from "../page.ts";
import { actOnce, dryRunHeader, replayedHeader } from "../write.ts";

/** GET /v1/webhooks/deliveries */
export async function listDeliveries(
  { query, ctx }: HttpRequest<"listDeliveries", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listDeliveries">> {
  const { limit, route, status, event, delivery_id: deliveryId, replay_of: replayOf } = query;
  const cursor = idCursor(query.after, "dlv_");
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  const filter = {
    ...ownerFilter(ctx),
    ...timeWindow(query),
    ...(route === undefined ? {} : { routes: route }),
    ...(status === undefined ? {} : { statuses: status }),
    ...(event === undefined ? {} : { events: event }),
    ...(deliveryId === undefined ? {} : { deliveryId }),
    ...(replayOf === undefined ? {} : { replayOf }),
  };
  const { deliveries, nextCursor } = await new Deliveries(deps.store).list(filter, { limit, cursor });
  const body = listBody(deliveries, limit, { positionOf: ({ id }) => id, show: toSummary });
  return { status: 200, headers, body: { ...body, has_more: nextCursor !== undefined } };
}

/** GET /v1/webhooks/deliveries/{delivery_id}. The payload and the rendered text require the scope webhooks, too. */
export async function getDelivery(
  { path, query, ctx }: HttpRequest<"getDelivery", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"getDelivery">> {
  const { include = [] } = query;
  const { name, scopes } = ctx.identity;
  if (include.length > 0 && !scopes.includes("webhooks") && !scopes.includes("admin")) {
    const what = `The key ${JSON.stringify(name)} requires the scope "webhooks" to include ${include.join(" and ")}.`;
    throw new ServiceError("insufficient_scope", what, { param: "include" });
  }
  const found = await deliveryOf(path.delivery_id, ctx, deps);
  return { status: 200, body: toDelivery(found, include) };
}

/** POST /v1/webhooks/deliveries/{delivery_id}/replay */
export async function replayDelivery(
  { path, query, headers, body, ctx }: HttpRequest<"replayDelivery", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"replayDelivery">> {
  const found = await deliveryOf(path.delivery_id, ctx, deps);
  if (query.dry_run) {
    const result = await rehearse(found, body, ctx, deps);
    return { status: 200, headers: dryRunHeader(true), body: showResult(result) };
  }
  const [param] = Object.keys(body);
  if (param !== undefined) {
    const what = `${param} is for dry runs: send dry_run=true, or an empty object.`;
    throw new ServiceError("invalid_request", what, { param });
  }
  const webhooks = await deps.webhooks();
  const key = headers["idempotency-key"];
  const once = { ctx, key, operation: "replayDelivery", content: [found.id] };
  const { result, isReplayed } = await actOnce<{ readonly id: string }>(once, deps, async (record) => {
    const id = await webhooks.replay(found, {
      by: ctx.identity.name,
      alsoRecord: (tx, made) => record(tx, { id: made }),
    });
    return { id };
  });
  const made = await deliveryOf(result.id, ctx, deps);
  return {
    status: 202,
    headers: {
      location: `/v1/webhooks/deliveries/${made.id}`,
      ...replayedHeader(isReplayed),
    },
    body: toDelivery(made, []),
  };
}

const DEFAULT_REPLAYS = 100;

/** POST /v1/webhooks/deliveries/replay: one after the other, so that their order stays. */
export async function replayDeliveries(
  { query, headers, body, ctx, signal }: HttpRequest<"replayDeliveries", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"replayDeliveries">> {
  const wanted = await replayFilter(body, ctx, deps);
  // Without the database nothing can be said about the deliveries.
  await deps.store.find("metadata", { key: "epoch" });
  (await deps.webhooks()).requireReceiver();
  const { limit } = wanted;
  const act = async (dryRun: boolean): Promise<ReplayResult> => {
    const ids = await listReplayable(deps.store, { ...wanted, limit: limit + 1 });
    const page = ids.slice(0, limit);
    const refused: ReplayResult["refused"] = [];
    let last: string | undefined;
    for (const id of page) {
      // The client has left: the same request replays the rest later.
      if (signal.aborted) break;
      const code = await replayOne(id, { dryRun, ctx }, deps);
      if (code !== undefined) refused.push({ id, code });
      last = id;
    }
    const matched = last === undefined ? 0 : page.indexOf(last) + 1;
    return {
      matched,
      replayed: matched - refused.length,
      refused,
      last_id: last ?? null,
      has_more: ids.length > matched,
    };
  };
  if (query.dry_run) return { status: 200, headers: dryRunHeader(true), body: await act(true) };
  const key = headers["idempotency-key"];
  const once = { ctx, key, operation: "replayDeliveries", content: body };
  const { result, isReplayed } = await actOnce<ReplayResult>(once, deps, async (record) => {
    const made = await act(false);
    // A crash before this repeats the request, which leaves out what has a replay.
    if (key !== undefined) await deps.store.write((tx) => record(tx, made));
    return made;
  });
  return { status: 200, headers: replayedHeader(isReplayed), body: result };
}

async function replayFilter(
  { route, from, to, status, limit, after }: HttpRequest<"replayDeliveries", HttpContext>["body"],
  { identity: { owner } }: HttpContext,
  deps: HttpDeps,
) {
  const { routes } = await deps.webhooks();
  await routes.get(route, { owner });
  const { fromMs = 0, toMs = Number.MAX_SAFE_INTEGER } = timeWindow(
    typeof to === "number" ? { from, to } : { from },
  );
  return {
    owner,
    route,
    fromMs,
    toMs,
    statuses: status ?? ["failed", "interrupted"],
    limit: limit ?? DEFAULT_REPLAYS,
    after: idCursor(after ?? undefined, "dlv_"),
  };
}

type RefusalCode = ReplayResult["refused"][number]["code"];

/** Resolves to the code of the refusal; undefined when the delivery is replayed, or in a dry run could be. */
async function replayOne(
  id: string,
  { dryRun, ctx }: { readonly dryRun: boolean; readonly ctx: HttpContext },
  deps: HttpDeps,
): Promise<RefusalCode | undefined> {
  const webhooks = await deps.webhooks();
  try {
    const found = await deliveryOf(id, ctx, deps);
    if (dryRun) await webhooks.checkReplay(found);
    else await webhooks.replay(found, { by: ctx.identity.name, alsoRecord: async () => {} });
    return undefined;
  } catch (error) {
    if (error instanceof ServiceError && error.row.http < 500) return error.code as RefusalCode;
    throw error;
  }
}

/** Rehearses the replay at the route as it is now, with the changes of the body. */
async function rehearse(
  found: Delivery,
  { route: patch = {}, up_to: upTo, skip_script: skipsScript }: ReplayBody,
  ctx: HttpContext,
  deps: HttpDeps,
): Promise<RehearsalResult> {
  const webhooks = await deps.webhooks();
  requireRouteRights(ctx, patch, webhooks);
  const managed = await webhooks.routes.get(found.route, { owner: found.owner });
  const route = webhooks.routes.usable(managed, patch);
  return webhooks.rehearseReplay(found, {
    route,
    why: `replayed by ${ctx.identity.name}`,
    upTo,
    skipsScript,
  });
}

/** In place of a secret: requests need none. */
const NO_AUTH = "INSECURE_NO_AUTH";

/**
 * Throws ServiceError `insufficient_scope` for fields of a route by which the key would grant itself more than it has, or
 * learn what is in a file of the server.
 */
export function requireRouteRights(
  { identity: { name, scopes } }: HttpContext,
  { toolsets, trusts_sender: trusts, secret, filters }: RouteFields,
  webhooks: WebhookService,
): void {
  if (scopes.includes("admin")) return;
  const rights = {
    toolsets: (toolsets ?? null) !== null,
    trusts_sender: trusts === true,
    secret: secret === NO_AUTH,
    filters: webhooks.readsFiles(filters),
  };
  const param = Object.entries(rights).find(([, needsAdmin]) => needsAdmin)?.[0];
  if (param === undefined) return;
  const field = param === "filters" ? "in_file in filters" : param;
  const what = `The key ${JSON.stringify(name)} requires the scope "admin" to set ${field} of a route.`;
  throw new ServiceError("insufficient_scope", what, { param });
}

interface RouteFields {
  readonly toolsets?: unknown;
  readonly trusts_sender?: unknown;
  readonly secret?: unknown;
  readonly filters?: unknown;
}

type ReplayBody = HttpRequest<"replayDelivery", HttpContext>["body"];

/** Returns a delivery of the caller's owner. ServiceError `delivery_not_found`. */
async function deliveryOf(id: string, { identity }: HttpContext, { store }: HttpDeps): Promise<Delivery> {
  const found = await new Deliveries(store).find(id);
  if (found && (identity.allOwners || found.owner === identity.owner)) return found;
  throw new ServiceError("delivery_not_found", `Delivery ${JSON.stringify(id)} does not exist.`);
}

function toSummary(each: DeliverySummary): ShownDelivery {
  return {
    object: "agent.delivery",
    id: each.id,
    owner: each.owner,
    route: each.route,
    delivery_id: each.deliveryId,
    event: each.event,
    status: each.status,
    reason: each.reason === undefined ? null : redact(each.reason),
    stages: null,
    run_id: each.runId ?? null,
    message_id: each.outboxId ?? null,
    replay_of: each.replayOf ?? null,
    headers: null,
    payload: null,
    rendered: null,
    created_at: each.createdAtMs / 1000,
    ended_at: each.endedAtMs === undefined ? null : each.endedAtMs / 1000,
  };
}

function toDelivery(found: Delivery, include: readonly ("payload" | "rendered")[]): ShownDelivery {
  const text = (name: "payload" | "rendered") => {
    const value = include.includes(name) ? found[name] : undefined;
    return value === undefined ? null : redact(value);
  };
  return {
    ...toSummary(found),
    stages: found.stages.map(toStage),
    headers: { ...found.headers },
    payload: text("payload"),
    rendered: text("rendered"),
  };
}

function toStage({ stage, result, detail }: StageResult): DeliveryStage {
  return { stage, result, detail: detail === undefined ? null : redact(detail) };
}

/** Returns a rehearsal as it is sent. */
export function showResult(result: RehearsalResult): WebhookResult {
  const { stages, subject, answer, text, delivery, toolsets } = result;
  return {
    object: "agent.webhook_result",
    event: subject.event,
    stages: stages.map(toStage),
    http_status: answer?.status ?? null,
    body: answer ? { ...answer.body } : null,
    rendered: text === undefined ? null : redact(text),
    targets: (delivery?.targets ?? []).map(redact),
    toolsets: delivery?.kind === "answer" ? [...toolsets] : [],
    issues: (delivery?.problems ?? []).map(redact),
    missing_fields: [...(delivery?.missingFields ?? [])],
  };
}
