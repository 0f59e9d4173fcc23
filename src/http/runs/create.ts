import type { RunAccepted, InputItem } from "../../../generated/http/client/types.gen.ts";
import type { Submitted, Prompt } from "../../agent/run/run.ts";
import { nameOfId, type SessionAddress } from "../../agent/session/session.ts";
import { ServiceError } from "../../base/errors.ts";
import type { ResponseRow } from "../../store/schema/tables.ts";
import type { HttpResponse, HttpRequest } from "../edge/contract.ts";
import {
  findRepeated,
  deleteKey,
  idempotencyOf,
  RepeatedRequest,
  type IdempotencyClaim,
  serialize,
  runHeaders,
  withClaim,
} from "../prompt/submission.ts";
import { branchFrom, isLatest } from "../responses/start.ts";
import type { HttpDeps, HttpContext } from "../deps.ts";
import type { Message } from "../../agent/engine.ts";
import { toConversation, type ItemConversation } from "../responses/input-items.ts";
import {
  approvals,
  checkCount,
  checkText,
  checkToolsets,
  requestedModel,
  requestedWebhook,
  sessionAddress,
  withKey,
} from "../prompt/fields.ts";
import { findPrevious } from "../responses/queries.ts";

type Created = HttpResponse<"createRun">;

/** POST /v1/runs: answers when the run is recorded. The run needs no client. */
export async function createRun(request: CreateRunHttpRequest, deps: HttpDeps): Promise<Created> {
  const claim = idempotencyOf("createRun", request);
  return serialize(deps.store, claim, () => create(request, deps, claim));
}

async function create(
  request: CreateRunHttpRequest,
  deps: HttpDeps,
  claim: IdempotencyClaim | undefined,
): Promise<Created> {
  const earlier = claim && (await findRepeated(deps.store, claim));
  const replayed = earlier === undefined ? undefined : await replayRun(earlier, request, deps, claim);
  if (replayed) return replayed;
  const { prompt, address, previous } = await planRun(request, deps);
  const submit = (target: SessionAddress) => {
    const addressed = { ...prompt, address: target };
    return deps.runs.submit(claim ? withClaim(addressed, deps, claim) : addressed);
  };
  try {
    const submitted = previous ? await continueFrom(previous, submit, deps) : await submit(address);
    // A steered text joined a running run and created none.
    const status = submitted.status === "queued" ? "queued" : "running";
    return acceptRun({ submitted, status, replayed: false });
  } catch (error) {
    if (!(error instanceof RepeatedRequest)) throw error;
    const made = await replayRun(error.runId, request, deps, claim);
    if (made) return made;
    throw new ServiceError("session_busy", "An equal request is in progress. Try again.", { cause: error });
  }
}

/** Continues the session of the response if nothing happened there since, else a branch of it. */
async function continueFrom(
  previous: ResponseRow,
  submit: (address: SessionAddress) => Promise<Submitted>,
  deps: HttpDeps,
): Promise<Submitted> {
  const { owner } = previous;
  if (await isLatest(deps, previous)) return submit({ owner, id: previous.session_id });
  const branch = await branchFrom(deps, previous);
  if (!branch) return submit({ owner });
  try {
    return await submit({ owner, id: branch.id });
  } catch (error) {
    await deps.agent.sessions.deleteUnused(branch.id);
    throw error;
  }
}

/** Returns the answer of an equal earlier request. Undefined when its run is gone; the key is then free again. */
export async function replayRun(
  runId: string,
  { ctx }: { readonly ctx: HttpContext },
  { store, agent, runs }: HttpDeps,
  claim: IdempotencyClaim | undefined,
): Promise<Created | undefined> {
  let run = await runs.reads.findSubmission(runId);
  if (run && (await agent.settle([run.sessionId]))) run = await runs.reads.findSubmission(runId);
  if (run?.owner === ctx.identity.owner)
    return acceptRun({ submitted: run, status: run.runStatus, replayed: true });
  if (claim) await deleteKey(store, claim, runId);
  return undefined;
}

/** Returns the answer about a recorded run. */
export function acceptRun(run: {
  readonly submitted: Submitted;
  readonly status: string;
  readonly replayed: boolean;
}): Created {
  const { runId: id, sessionId, createdAtMs } = run.submitted;
  const urls = {
    status: `/v1/runs/${id}`,
    events: `/v1/runs/${id}/events`,
    stop: `/v1/runs/${id}/stop`,
    approval: `/v1/runs/${id}/approval`,
  };
  return {
    status: 202,
    headers: { ...runHeaders(run), location: urls.status },
    body: {
      object: "agent.run",
      run_id: id,
      id,
      status: run.status as RunAccepted["status"],
      session_id: nameOfId(sessionId),
      created_at: createdAtMs / 1000,
      replayed: run.replayed,
      urls,
    },
  };
}

export type CreateRunHttpRequest = HttpRequest<"createRun", HttpContext>;

/** A request for a run, translated for the agent, without its session. */
export interface RunPlan {
  readonly prompt: Omit<Prompt, "address">;
  /** The session without `previous`. */
  readonly address: SessionAddress;
  /** The stored response that the run continues. */
  readonly previous: ResponseRow | undefined;
}

/** Translates a request that fits the schema. Rejects what the schema cannot express. */
async function planRun(request: CreateRunHttpRequest, deps: HttpDeps): Promise<RunPlan> {
  const { body, headers, ctx } = request;
  const { session_key: key, session_id: id, previous_response_id: previousId } = body;
  if (previousId != null && (id !== undefined || key !== undefined)) {
    const what = "Name either the session or the previous response, not both.";
    throw new ServiceError("invalid_request", what, { param: "previous_response_id" });
  }
  const address = sessionAddress(ctx.identity, headers, id, { key, path: "" });
  const model = requestedModel({ header: headers["x-agent-model"], body: body.model, isStrict: true }, deps);
  const { traceparent } = ctx;
  return {
    address,
    previous: previousId == null ? undefined : await findPrevious(deps, previousId, ctx.identity.owner),
    prompt: {
      ...withKey(ctx),
      seed: { source: "http" },
      kind: "run",
      input: { ...(await toInput(request, deps)), ...(traceparent === undefined ? {} : { traceparent }) },
      ...requestedWebhook(body.webhook, "webhook", deps),
      ...(model ? { model } : {}),
      ...(body.metadata ? { metadata: body.metadata } : {}),
    },
  };
}

async function toInput(request: CreateRunHttpRequest, deps: HttpDeps): Promise<Prompt["input"]> {
  const { body } = request;
  const toolsets = checkToolsets(body.toolsets, "toolsets", deps);
  checkText(body.instructions ?? "", "instructions", deps);
  const history = await conversation(body.conversation_history ?? [], "conversation_history", request, deps);
  const split = await splitInput(request, deps);
  const instructions = [body.instructions ?? "", history.instructions, split.instructions]
    .filter((text) => text !== "")
    .join("\n\n");
  return {
    opening: [...history.messages, ...split.opening],
    prompt: split.prompt,
    settings: {},
    isDetached: true,
    ...approvals(body.approval_mode),
    ...(instructions === "" ? {} : { instructions }),
    ...(toolsets ? { toolsets } : {}),
    ...(body.timeout_seconds === undefined ? {} : { timeoutMs: body.timeout_seconds * 1000 }),
  };
}

interface SplitInput {
  readonly instructions: string;
  readonly opening: readonly Message[];
  readonly prompt: readonly Message[];
}

/** Splits the input. The prompt is everything after the last answer in it. */
async function splitInput(request: CreateRunHttpRequest, deps: HttpDeps): Promise<SplitInput> {
  const { input } = request.body;
  if (typeof input === "string") {
    checkText(input, "input", deps);
    return { instructions: "", opening: [], prompt: [{ role: "user", text: input }] };
  }
  const { messages, instructions } = await conversation(input, "input", request, deps);
  const start = messages.findLastIndex(({ role }) => role === "assistant") + 1;
  const prompt = messages.slice(start);
  if (prompt.length > 0) return { instructions, opening: messages.slice(0, start), prompt };
  const what = "The last item must come from the user or a tool. The agent answers it.";
  throw new ServiceError("invalid_request", what, { param: "input" });
}

async function conversation(
  items: readonly InputItem[],
  param: string,
  { signal }: CreateRunHttpRequest,
  deps: HttpDeps,
): Promise<ItemConversation> {
  checkCount(items.length, param, deps);
  const read = await toConversation(items, { param, deps, signal });
  const [unmatched] = read.answers;
  if (!unmatched) return read;
  const what = `${unmatched.param} is ${JSON.stringify(unmatched.callId)}, but ${param} has no such call.`;
  throw new ServiceError("invalid_request", what, { param: unmatched.param });
}
