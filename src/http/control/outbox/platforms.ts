import type { Platform, PlatformTest } from "../../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../../base/errors.ts";
import { redact } from "../../../base/observe.ts";
import { schemaAt } from "../../../config/check.ts";
import { readOutboxStats, type OutboxStats } from "../../../deliver/outbox/stats.ts";
import type { PlatformStatus } from "../../../deliver/platform/status.ts";
import { greeting, sendTrial } from "../../../deliver/platform/trial.ts";
import { idProblem, platforms as traits } from "../../../deliver/target.ts";
import type { HttpContext, HttpDeps } from "../../deps.ts";
import type { HttpRequest, HttpResponse } from "../../edge/contract.ts";
import { eventCursor } from "../feed.ts";
import { ownerFilter, pageOf } from "../page.ts";
import { actOnce, replayedHeader } from "../write.ts";

/** GET /v1/platforms, in the usual order. */
export async function listPlatforms(
  { query, ctx }: HttpRequest<"listPlatforms", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listPlatforms">> {
  const { rows, ...page } = pageOf(await deps.delivery.platforms(), query, ({ name }) => name);
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  const stats = await readOutboxStats(deps.store, ownerFilter(ctx));
  return { status: 200, headers, body: { ...page, data: rows.map((status) => toPlatform(status, stats)) } };
}

/** GET /v1/platforms/{platform} */
export async function getPlatform(
  { path, ctx }: HttpRequest<"getPlatform", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"getPlatform">> {
  const stats = await readOutboxStats(deps.store, ownerFilter(ctx));
  const status = await platformOf(path.platform, deps);
  const schema = schemaAt(["platforms", status.name, "extra"]) ?? null;
  return { status: 200, body: { ...toPlatform(status, stats), settings_schema: schema } };
}

/**
 * POST /v1/platforms/{platform}/test, through the target of the service: of some platforms a second connection would end
 * the first.
 */
export async function testPlatform(
  { path, headers, body, ctx, signal }: HttpRequest<"testPlatform", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"testPlatform">> {
  const key = headers["idempotency-key"];
  const once = { ctx, key, operation: "testPlatform", content: [path.platform, body] };
  const { result, isReplayed } = await actOnce<PlatformTest>(once, deps, async (record) => {
    const made = await sendTest({ name: path.platform, body, signal }, deps);
    if (key !== undefined) await deps.store.write((tx) => record(tx, made));
    return made;
  });
  return { status: 200, headers: replayedHeader(isReplayed), body: result };
}

interface Test {
  readonly name: string;
  readonly body: HttpRequest<"testPlatform", HttpContext>["body"];
  readonly signal: AbortSignal;
}

const DEFAULT_SECONDS = 30;

async function sendTest({ name, body, signal }: Test, deps: HttpDeps): Promise<PlatformTest> {
  const { clock, delivery } = deps;
  const status = await platformOf(name, deps);
  const target = delivery.targets.get(status.name);
  if (status.status !== "ready" || !target) throw platformNotReady(status);
  checkChat(status, body);
  const { chat_id: chat, thread_id: thread, text = greeting(delivery.host, clock.now()), extra = {} } = body;
  const timeoutMs = (body.timeout_seconds ?? DEFAULT_SECONDS) * 1000;
  const trial = await sendTrial(target, { chat, thread, text, extra }, { clock, timeoutMs, signal });
  return {
    outcome: trial.outcome,
    error: trial.error === undefined ? null : redact(trial.error),
    address: redact(trial.address),
    took_ms: trial.tookMs,
  };
}

/** ServiceError `invalid_request` for ids that the target would ignore. */
function checkChat(
  { name }: PlatformStatus,
  { chat_id: chat, thread_id: thread, extra = {} }: Test["body"],
): void {
  if (traits[name].address === "none" && (chat ?? thread) !== undefined) {
    const what = `${name} has no chats. Use extra, such as {"repo": "owner/name"}.`;
    throw new ServiceError("invalid_request", what, { param: chat === undefined ? "thread_id" : "chat_id" });
  }
  const problem = idProblem(name, { extra });
  if (problem !== undefined) {
    throw new ServiceError("invalid_request", problem.replaceAll("deliver_extra", "extra"), {
      param: "extra",
    });
  }
}

/** Returns the error for a platform that cannot send. */
export function platformNotReady({ name, title, status, missing }: PlatformStatus): ServiceError {
  const what =
    status === "off"
      ? `${title} is disabled: set platforms.${name}.enabled to true.`
      : `${title} is not configured: set ${missing.join(" and ")} of platforms.${name}.`;
  return new ServiceError("platform_not_ready", `${what} Nothing was sent.`, {
    details: { status, missing },
  });
}

async function platformOf(name: string, { delivery }: HttpDeps): Promise<PlatformStatus> {
  const found = (await delivery.platforms()).find((platform) => platform.name === name);
  if (found) return found;
  const what = `Platform ${JSON.stringify(name)} does not exist. GET /v1/platforms lists all.`;
  throw new ServiceError("platform_not_found", what);
}

const NONE = { due: 0, sending: 0, dead: 0, unknown: 0 };

function toPlatform(
  { name, title, status, missing, keys, home }: PlatformStatus,
  { byPlatform }: OutboxStats,
): Platform {
  return {
    object: "agent.platform",
    name,
    title,
    status,
    missing: [...missing],
    home: home === undefined ? null : redact(home),
    keys: [...keys],
    settings_schema: null,
    outbox: { ...NONE, ...byPlatform.get(name) },
  };
}
