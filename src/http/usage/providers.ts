import type {
  DetectedProviders,
  ModelPrice,
  ModelTest,
  Price as PriceBody,
  Provider,
} from "../../../generated/http/client/types.gen.ts";
import { DEMO_MODEL, formatModel, type ModelRef, type ModelProvider, type Price } from "../../agent/model.ts";
import { hasFailed, tryModel } from "../../agent/engines/scripted.ts";
import { costUsd, toRunUsage } from "../../agent/usage/usage.ts";
import { ServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe.ts";
import { headOf, toOneLine } from "../../base/text.ts";
import { conventionalVariables } from "../../config/providers.ts";
import { eventCursor } from "../control/feed.ts";
import { pageOf } from "../control/page.ts";
import { actOnce, replayedHeader } from "../control/write.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";

/** GET /v1/providers, in the order in which names are resolved. */
export async function listProviders(
  { query }: HttpRequest<"listProviders", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listProviders">> {
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  const { rows, ...page } = pageOf(deps.models.providers, query, ({ name }) => name);
  const data: Provider[] = [];
  for (const provider of rows) data.push(await toProvider(provider, deps));
  return { status: 200, headers, body: { ...page, data } };
}

async function toProvider(provider: ModelProvider, { models, tooling }: HttpDeps): Promise<Provider> {
  const { name, type, baseUrl } = provider;
  const isDemo = name === DEMO_MODEL.provider;
  const hasKey = provider.hasKey ?? isDemo;
  const issue = issueOf(provider, hasKey || isDemo || tooling.hasHeaders(name));
  const entries: Provider["models"] = [];
  for (const id of provider.models) {
    const ref = { provider: name, id };
    const { price } = await tooling.prices.find(ref);
    entries.push({
      id: formatModel(ref),
      context_tokens: models.contextTokensOf(ref),
      is_default: formatModel(models.default) === formatModel(ref),
      price: price ? toPrice(price) : null,
    });
  }
  return {
    object: "agent.provider",
    id: name,
    name,
    type,
    base_url: baseUrl === undefined ? null : withoutSecrets(baseUrl),
    source: isDemo ? "demo" : tooling.isConfigured(name) ? "config" : "detected",
    has_key: hasKey,
    ready: issue === null,
    issue,
    models: entries,
  };
}

function issueOf({ name, type, baseUrl }: ModelProvider, mayCall: boolean): string | null {
  if (mayCall || type === "openai_compatible" || baseUrl !== undefined) return null;
  const [variable] = conventionalVariables[type as keyof typeof conventionalVariables] ?? [];
  const where = variable === undefined ? "" : `, or ${variable} in the .env file of the home`;
  return `It has no API key. Set model.providers.${name}.api_key${where}.`;
}

/** Addresses may hold a user and a password. */
function withoutSecrets(address: string): string {
  const url = URL.parse(address);
  return url ? redact(`${url.protocol}//${url.host}${url.pathname}`) : "";
}

function toPrice({ input, output, cacheRead, cacheWrite }: Price): PriceBody {
  return { input, output, cache_read: cacheRead, cache_write: cacheWrite };
}

/** GET /v1/prices */
export async function listPrices(
  { query }: HttpRequest<"listPrices", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listPrices">> {
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  const all = query.model ? query.model.map((name) => refOf(name, deps)) : listedModels(deps);
  const some = query.provider ? all.filter(({ provider }) => query.provider?.includes(provider)) : all;
  const { rows, ...page } = pageOf(some, query, formatModel);
  const data: ModelPrice[] = [];
  for (const ref of rows) {
    const { source, price } = await deps.tooling.prices.find(ref);
    const id = formatModel(ref);
    const shown = price ? toPrice(price) : null;
    data.push({ object: "agent.price", id, model: ref.id, provider: ref.provider, source, price: shown });
  }
  return { status: 200, headers, body: { ...page, data } };
}

function listedModels({ models }: HttpDeps): readonly ModelRef[] {
  return models.providers.flatMap(({ name, models: ids }) => ids.map((id) => ({ provider: name, id })));
}

/** ServiceError `model_not_found`. */
function refOf(name: string, { models }: HttpDeps): ModelRef {
  const ref = models.resolve(name);
  if (ref) return ref;
  const what = `No provider has the model ${JSON.stringify(name)}. GET /v1/providers lists the providers.`;
  throw new ServiceError("model_not_found", what, { param: "model" });
}

/** POST /v1/providers/detect */
export async function detectProviders(
  { headers, body, ctx }: HttpRequest<"detectProviders", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"detectProviders">> {
  const key = headers["idempotency-key"];
  const once = { ctx, key, operation: "detectProviders", content: body };
  const { result, isReplayed } = await actOnce<DetectedProviders>(once, deps, async (record) => {
    const { servers, unanswered } = await deps.tooling.detect();
    const found = servers.map(({ name, baseUrl, models }) => ({
      name,
      base_url: baseUrl,
      models: [...models],
    }));
    const made: DetectedProviders = {
      object: "agent.provider.detection",
      servers: found,
      unanswered: [...unanswered],
    };
    if (key !== undefined) await deps.store.write((tx) => record(tx, made));
    return made;
  });
  return { status: 200, headers: replayedHeader(isReplayed), body: result };
}

/** Longest test: within the time of any other request. */
const TEST_TIMEOUT_MS = 55_000;
const MAX_TESTS = 4;
const MAX_TEXT_CHARACTERS = 500;

/** POST /v1/providers/test. Its calls count towards the budgets of the caller. */
export async function testModel(
  { headers, body, ctx, signal }: HttpRequest<"testModel", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"testModel">> {
  const ref = body.model === undefined ? deps.models.default : refOf(body.model, deps);
  const key = headers["idempotency-key"];
  const once = { ctx, key, operation: "testModel", content: body };
  const { result, isReplayed } = await actOnce<ModelTest>(once, deps, async (record) => {
    const made = await runTest({ ref, ctx, signal, withTool: body.with_tool ?? true }, deps);
    if (key !== undefined) await deps.store.write((tx) => record(tx, made));
    return made;
  });
  return { status: 200, headers: replayedHeader(isReplayed), body: result };
}

interface Test {
  readonly ref: ModelRef;
  readonly ctx: HttpContext;
  readonly signal: AbortSignal;
  readonly withTool: boolean;
}

let running = 0;

async function runTest({ ref, ctx, signal, withTool }: Test, deps: HttpDeps): Promise<ModelTest> {
  if (running >= MAX_TESTS) {
    const what = `${MAX_TESTS} tests of models run already, which is the limit. Try again when one has ended.`;
    throw new ServiceError("too_many_concurrent_runs", what, { retryAfterSeconds: 1 });
  }
  const { identity } = ctx;
  running += 1;
  try {
    const budget = await deps.tooling.openBudget({
      owner: identity.owner,
      key: identity.authenticated ? identity.name : null,
      model: ref,
    });
    const refusal = budget.admit(ref);
    if (refusal) throw new ServiceError("budget_exceeded", refusal.message, refusal);
    const trial = await tryModel(deps.tooling.engine, ref, {
      withTool,
      timeoutMs: TEST_TIMEOUT_MS,
      signal,
      admit: (model) => budget.admit(model),
      price: (model, usage) => {
        const priced = deps.tooling.prices.priced(model, usage);
        budget.spend(priced);
        return priced;
      },
    });
    return toTest(trial, formatModel(ref), withTool);
  } finally {
    running -= 1;
  }
}

function toTest(trial: Awaited<ReturnType<typeof tryModel>>, model: string, withTool: boolean): ModelTest {
  const { end, calledTool, durationMs, firstTokenMs } = trial;
  const { usage } = end;
  const ok = !hasFailed(trial);
  const late = end.stop === "aborted" ? "It did not answer in time." : "It answered without any text.";
  return {
    object: "agent.provider.test",
    model,
    ok,
    called_tool: withTool ? calledTool : null,
    text: headOf(redact(toOneLine(end.text)), MAX_TEXT_CHARACTERS),
    first_token_ms: firstTokenMs === undefined ? null : Math.round(firstTokenMs),
    took_ms: Math.round(durationMs),
    usage: toRunUsage(usage, model),
    cost_usd: costUsd({ ...usage, tokens: usage.inputTokens + usage.outputTokens }),
    error: ok ? null : redact(end.error?.message ?? late),
  };
}
