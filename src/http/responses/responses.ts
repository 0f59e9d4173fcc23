import type { Response as ResponseObject } from "../../../generated/http/client/types.gen.ts";
import { toRunEvent } from "../../agent/run/event.ts";
import { isFinalStatus, responseIdOf, followRun } from "../../agent/run/run.ts";
import { nameOfId } from "../../agent/session/session.ts";
import { ServiceError } from "../../base/errors.ts";
import type { ResponseRow } from "../../store/schema/tables.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";
import { idempotencyOf } from "../edge/idempotency.ts";
import { ResponseReducer } from "./reducer.ts";
import { echoOf, type ResponseRequest } from "./object.ts";
import { reduceEvents, readResponse, readWhole, responseEvents } from "./read.ts";
import { planResponse, type CreateRequest } from "./request.ts";
import { startResponse } from "./start.ts";
import { findResponse, forgetResponse, storedInput, storedRequest, touchResponse } from "./store.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { RunSubscribers } from "../runs/subscribers.ts";
import { failedAnswer, failureOf, shuttingDown } from "../runs/failure.ts";
import {
  joinRepeated,
  runEvents,
  runHeaders,
  stopWhenGone,
  type StartedRun,
  type StartOptions,
} from "../prompt/submission.ts";

/** POST /v1/responses: a response is a run, told in the words of this format. */
export async function createResponse(
  request: CreateRequest,
  deps: HttpDeps,
): Promise<HttpResponse<"createResponse">> {
  const { body, signal } = request;
  const options = { claim: idempotencyOf("createResponse", request), signal };
  const { started, asked } = await startOrJoin(request, deps, options);
  const headers = runHeaders(started);
  const { runId } = started.submitted;
  const reducer = new ResponseReducer(runId, asked);
  if (body.background === true && body.stream !== true) {
    await started.events[Symbol.asyncIterator]().return?.();
    await reduceEvents(deps.store, reducer, runId);
    return { status: 200, headers, body: reducer.response };
  }
  const isAlone = body.background === true || body.agent?.on_disconnect === "continue";
  const forget = isAlone || started.isJoined ? () => {} : stopWhenGone(signal, runId, deps);
  if (body.stream === true) return { status: 200, headers, stream: responseEvents(reducer, started.events) };
  return whole(reducer, started, headers).finally(forget);
}

/** The run, new or the one that this request made before, and what its response repeats of the request. */
async function startOrJoin(
  request: CreateRequest,
  deps: HttpDeps,
  options: StartOptions,
): Promise<{ readonly started: StartedRun; readonly asked: ResponseRequest }> {
  const joined = await joinRepeated(deps, options);
  if (joined) return { started: joined, asked: await askedBefore(request, joined, deps) };
  const plan = await planResponse(request, deps);
  const started = await startResponse(plan, deps, options);
  const { request: asked } = plan.kept;
  return { started, asked: started.replayed ? await askedBefore(request, started, deps) : asked };
}

/** As it was stored when it was; else as this same request says. */
async function askedBefore(
  { body }: CreateRequest,
  { submitted }: StartedRun,
  { store, settings }: HttpDeps,
): Promise<ResponseRequest> {
  const row = await store.read
    .selectFrom("responses")
    .select("request")
    .where("id", "=", responseIdOf(submitted.runId))
    .executeTakeFirst();
  const { toolItems, showReasoning, modelName } = settings;
  return row ? storedRequest(row) : { echo: echoOf(body, modelName), toolItems, showReasoning };
}

/** The whole answer, once the run has ended. */
async function whole(
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
    if (failure) return failedAnswer(failure, { headers, toolRan });
  }
  if (!reducer.isOver) throw shuttingDown();
  return { status: 200, headers, body: reducer.response };
}

function tooLate(runId: string): ServiceError {
  return new ServiceError(
    "idempotency_key_conflict",
    `The run ${runId} of this Idempotency-Key is not kept whole any more. Use a new key.`,
    { param: "Idempotency-Key" },
  );
}

/** GET /v1/responses/{response_id}: as it is now, or with `stream` what happened after an event, then what happens. */
export async function getResponse(
  { path, query, ctx, signal }: HttpRequest<"getResponse", HttpContext>,
  deps: HttpDeps,
  subscribers: RunSubscribers,
): Promise<HttpResponse<"getResponse">> {
  const { store } = deps;
  const row = await findResponse(deps, path.response_id, ctx.identity.name);
  await touchResponse(store, row.id);
  const headers = { "x-agent-run-id": row.run_id, "x-agent-session-id": nameOfId(row.session_id) };
  if (query.stream !== true) {
    return { status: 200, headers, body: (await readResponse(store, row)).response };
  }
  const after = query.starting_after ?? -1;
  const { count } = await readWhole(store, row);
  if (after >= count) throw beyond(after, count - 1);
  const leave = subscribers.enter(row.run_id);
  signal.addEventListener("abort", leave, { once: true });
  const events = store.journal.follow({ runId: row.run_id }, { signal });
  const reducer = new ResponseReducer(row.run_id, storedRequest(row));
  return { status: 200, headers, stream: leaving(responseEvents(reducer, events, after), leave) };
}

/** Calls `leave` when the events are over, or nobody wants them any more. */
async function* leaving<T>(events: AsyncIterable<T>, leave: () => void): AsyncGenerator<T> {
  try {
    yield* events;
  } finally {
    leave();
  }
}

function beyond(after: number, last: number): ServiceError {
  return new ServiceError(
    "invalid_cursor",
    `starting_after is ${after}, and the last event of the response so far is ${last}.`,
    { param: "starting_after" },
  );
}

/** DELETE /v1/responses/{response_id} */
export async function deleteResponse(
  { path, ctx }: HttpRequest<"deleteResponse", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"deleteResponse">> {
  const row = await findResponse(deps, path.response_id, ctx.identity.name);
  await forgetResponse(deps.store, row.id);
  if (!(await hasEnded(deps, row))) await deps.runs.stop(row.run_id, "the response was deleted");
  return { status: 200, body: { id: row.id, object: "response", deleted: true } };
}

/** POST /v1/responses/{response_id}/cancel: answers when the run has really ended. */
export async function cancelResponse(
  { path, ctx, signal }: HttpRequest<"cancelResponse", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"cancelResponse">> {
  const row = await findResponse(deps, path.response_id, ctx.identity.name);
  if (await hasEnded(deps, row))
    return { status: 200, body: cancelled((await readResponse(deps.store, row)).response) };
  await deps.runs.stop(row.run_id, "the response was cancelled");
  const reducer = new ResponseReducer(row.run_id, storedRequest(row));
  for await (const event of followRun(deps.store, row.run_id, { signal })) reducer.take(toRunEvent(event));
  if (!reducer.isOver) throw shuttingDown();
  return { status: 200, body: reducer.response };
}

/** ServiceError `response_not_cancellable` for one that ended in another way. */
function cancelled(response: ResponseObject): ResponseObject {
  if (response.status === "cancelled") return response;
  throw new ServiceError(
    "response_not_cancellable",
    `The response is ${response.status} already; only one that is at work can be cancelled.`,
  );
}

async function hasEnded({ store }: HttpDeps, row: ResponseRow): Promise<boolean> {
  const run = await store.read
    .selectFrom("runs")
    .select("status")
    .where("id", "=", row.run_id)
    .executeTakeFirst();
  return run === undefined || isFinalStatus(run.status);
}

/** GET /v1/responses/{response_id}/input_items */
export async function listResponseInputItems(
  { path, query, ctx }: HttpRequest<"listResponseInputItems", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listResponseInputItems">> {
  const row = await findResponse(deps, path.response_id, ctx.identity.name);
  const { limit = 20, order = "desc", after } = query;
  const stored = storedInput(row);
  const items = order === "asc" ? stored : stored.toReversed();
  const start = after === undefined ? 0 : items.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && start === 0) {
    const what = `after is ${JSON.stringify(after)}, which is no item of this response.`;
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
