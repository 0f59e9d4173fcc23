import type { ResponseObject } from "../../../generated/http/client/types.gen.ts";
import { toRunEvent, responseIdOf, followRun } from "../../agent/run/run.ts";
import { nameOfId } from "../../agent/session/session.ts";
import { ServiceError } from "../../base/errors.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";
import {
  idempotencyOf,
  failedAnswer,
  failureOf,
  shuttingDown,
  joinRepeated,
  openAnswer,
  runEvents,
  runHeaders,
  stopWhenGone,
  type StartedRun,
  type StartOptions,
} from "../prompt/submission.ts";
import { ResponseReducer, type ResponseRequest } from "./reducer.ts";
import { echoOf, planResponse, type CreateRequest } from "./request.ts";
import { reduceEvents, readResponse, readComplete, responseEvents } from "./read.ts";
import { startResponse } from "./start.ts";
import { findResponse, removeResponse, storedInput, storedRequest, touchResponse } from "./queries.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { RunSubscribers } from "../runs/read.ts";

/** POST /v1/responses: starts a run and answers in the responses format. */
export async function createResponse(
  request: CreateRequest,
  deps: HttpDeps,
): Promise<HttpResponse<"createResponse">> {
  const { body, signal } = request;
  const options = { claim: idempotencyOf("createResponse", request), signal };
  const { started, stored } = await startOrJoin(request, deps, options);
  const headers = runHeaders(started);
  const { runId } = started.submitted;
  const reducer = new ResponseReducer(runId, stored);
  if (body.background === true && body.stream !== true) {
    await started.events[Symbol.asyncIterator]().return?.();
    await reduceEvents(deps.store, reducer, runId);
    return { status: 200, headers, body: reducer.response };
  }
  const isDetached = body.background === true || body.agent?.on_disconnect === "continue";
  const stopWatching = isDetached || started.isJoined ? () => {} : stopWhenGone(signal, runId, deps);
  if (body.stream !== true) return collect(reducer, started, headers).finally(stopWatching);
  // A background response is known by its id, which its first event carries.
  if (body.background === true)
    return { status: 200, headers, stream: responseEvents(reducer, runEvents(started.events)) };
  const opened = await openAnswer(started.events, deps.clock);
  if (opened.failure)
    return failedAnswer(opened.failure, { headers, toolRan: false, event: opened.end, noParam: "" });
  return { status: 200, headers, stream: responseEvents(reducer, opened.events) };
}

/**
 * Starts a run, or joins that of an equal earlier request. Also returns the fields that the response repeats of
 * its request.
 */
async function startOrJoin(
  request: CreateRequest,
  deps: HttpDeps,
  options: StartOptions,
): Promise<{ readonly started: StartedRun; readonly stored: ResponseRequest }> {
  const joined = await joinRepeated(deps, options);
  if (joined) return { started: joined, stored: await storedRequestOf(request, joined, deps) };
  const plan = await planResponse(request, deps);
  const started = await startResponse(plan, deps, options);
  const { request: stored } = plan.record;
  return { started, stored: started.replayed ? await storedRequestOf(request, started, deps) : stored };
}

/** Returns what the response stored of its request; without a stored response, reads this request. */
async function storedRequestOf(
  { body }: CreateRequest,
  { submitted }: StartedRun,
  { store, settings }: HttpDeps,
): Promise<ResponseRequest> {
  const row = await store.find("responses", { id: responseIdOf(submitted.runId) });
  const { toolItems, showReasoning, modelName } = settings;
  return row ? storedRequest(row) : { echo: echoOf(body, modelName), toolItems, showReasoning };
}

/** Returns the whole answer when the run ends. */
async function collect(
  reducer: ResponseReducer,
  { events, submitted }: StartedRun,
  headers: ReturnType<typeof runHeaders>,
): Promise<HttpResponse<"createResponse">> {
  let toolRan = false;
  for await (const event of runEvents(events)) {
    if (event.seq !== reducer.lastSeq + 1) throw tooLate(submitted.runId);
    reducer.take(event);
    if (event.event === "tool.started") toolRan = true;
    const failure = failureOf(event);
    if (failure) return failedAnswer(failure, { headers, toolRan, event, noParam: "" });
  }
  if (!reducer.isOver) throw shuttingDown();
  return { status: 200, headers, body: reducer.response };
}

function tooLate(runId: string): ServiceError {
  return new ServiceError(
    "idempotency_key_conflict",
    `Some events of the run ${runId} of this Idempotency-Key have expired. Use a new key.`,
    { param: "Idempotency-Key" },
  );
}

/**
 * GET /v1/responses/{response_id}: returns the response as it is now. With `stream`, replays its events and
 * follows.
 */
export async function getResponse(
  { path, query, ctx, signal }: HttpRequest<"getResponse", HttpContext>,
  deps: HttpDeps,
  { subscribers }: { readonly subscribers: RunSubscribers },
): Promise<HttpResponse<"getResponse">> {
  const { store } = deps;
  const row = await findResponse(deps, path.response_id, ctx.identity.owner);
  await touchResponse(store, row.id);
  const headers = { "x-agent-run-id": row.run_id, "x-agent-session-id": nameOfId(row.session_id) };
  if (query.stream !== true) {
    return { status: 200, headers, body: (await readResponse(store, row)).response };
  }
  const after = query.starting_after ?? -1;
  const { count } = await readComplete(store, row);
  if (after >= count) throw beyondEnd(after, count - 1);
  const release = subscribers.enter(row.run_id);
  signal.addEventListener("abort", release, { once: true });
  const events = store.journal.follow({ runId: row.run_id }, { signal });
  const reducer = new ResponseReducer(row.run_id, storedRequest(row));
  return {
    status: 200,
    headers,
    stream: releaseAtEnd(responseEvents(reducer, runEvents(events), after), release),
  };
}

/** Calls `release` when the events end, or when the reader stops. */
async function* releaseAtEnd<T>(events: AsyncIterable<T>, release: () => void): AsyncGenerator<T> {
  try {
    yield* events;
  } finally {
    release();
  }
}

function beyondEnd(after: number, last: number): ServiceError {
  return new ServiceError(
    "invalid_cursor",
    `starting_after is ${after}, but the last event of the response so far is ${last}.`,
    { param: "starting_after" },
  );
}

/** DELETE /v1/responses/{response_id} */
export async function deleteResponse(
  { path, ctx }: HttpRequest<"deleteResponse", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"deleteResponse">> {
  const row = await findResponse(deps, path.response_id, ctx.identity.owner);
  await removeResponse(deps.store, row.id);
  if (!(await deps.runs.reads.isFinal(row.run_id)))
    await deps.runs.stop(row.run_id, "the response was deleted", { by: ctx.identity.name });
  return { status: 200, body: { id: row.id, object: "response", deleted: true } };
}

/** POST /v1/responses/{response_id}/cancel: answers when the run has ended. */
export async function cancelResponse(
  { path, ctx, signal }: HttpRequest<"cancelResponse", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"cancelResponse">> {
  const row = await findResponse(deps, path.response_id, ctx.identity.owner);
  if (await deps.runs.reads.isFinal(row.run_id))
    return { status: 200, body: cancelled((await readResponse(deps.store, row)).response) };
  await deps.runs.stop(row.run_id, "the response was cancelled", { by: ctx.identity.name });
  const reducer = new ResponseReducer(row.run_id, storedRequest(row));
  for await (const event of followRun(deps.store, row.run_id, { signal })) reducer.take(toRunEvent(event));
  if (!reducer.isOver) throw shuttingDown();
  return { status: 200, body: reducer.response };
}

/** Returns a cancelled response. ServiceError `response_not_cancellable` for any other end. */
function cancelled(response: ResponseObject): ResponseObject {
  if (response.status === "cancelled") return response;
  throw new ServiceError(
    "response_not_cancellable",
    `The response is already ${response.status}. Only a running response can be cancelled.`,
  );
}

/** GET /v1/responses/{response_id}/input_items */
export async function listResponseInputItems(
  { path, query, ctx }: HttpRequest<"listResponseInputItems", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listResponseInputItems">> {
  const row = await findResponse(deps, path.response_id, ctx.identity.owner);
  const { limit = 20, order = "desc", after } = query;
  const stored = storedInput(row);
  const items = order === "asc" ? stored : stored.toReversed();
  const start = after === undefined ? 0 : items.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && start === 0) {
    const what = `after is ${JSON.stringify(after)}, which is not an item of this response.`;
    throw new ServiceError("invalid_cursor", what, { param: "after" });
  }
  const data = items.slice(start, start + limit);
  return {
    status: 200,
    body: {
      object: "list",
      data: [...data],
      first_id: data[0]?.id ?? null,
      last_id: data.at(-1)?.id ?? null,
      has_more: start + data.length < items.length,
    },
  };
}
