import type { InputItem, RunAccepted } from "../../generated/http/client/types.gen.ts";
import type { Message } from "../agent/message.ts";
import type { Prompt } from "../agent/prompt.ts";
import { ServiceError } from "../base/errors.ts";
import type { HttpRequest, HttpResponse } from "./contract.ts";
import { idempotencyOf } from "./idempotency.ts";
import { toConversation, type ItemConversation } from "./items.ts";
import {
  approvals,
  checkCount,
  checkText,
  checkToolsets,
  requestedModel,
  requestedWebhook,
} from "./request-options.ts";
import type { HttpContext, HttpRoom } from "./room.ts";
import { sessionAddress } from "./session.ts";
import { recordRun, runHeaders } from "./submission.ts";

type CreateRequest = HttpRequest<"createRun", HttpContext>;

/** POST /v1/runs: answers once the run is recorded; nobody has to stay for it. */
export async function createRun(request: CreateRequest, room: HttpRoom): Promise<HttpResponse<"createRun">> {
  const { signal } = request;
  const claim = idempotencyOf("createRun", request);
  let createdAtMs: number | undefined;
  const prompt: Prompt = {
    ...(await toPrompt(request, room)),
    alsoRecord: async (_tx, run) => void (createdAtMs = run.created_at),
  };
  const started = await recordRun(prompt, room, { claim, signal });
  const { submitted, replayed } = started;
  const { runId, sessionId } = submitted;
  const isNew = !replayed && createdAtMs !== undefined;
  const known = isNew ? { status: submitted.status, created_at: createdAtMs } : await statusOf(runId, room);
  const body: RunAccepted = {
    object: "agent.run",
    run_id: runId,
    id: runId,
    status: known.status as RunAccepted["status"],
    session_id: sessionId,
    created_at: (known.created_at ?? 0) / 1000,
    replayed,
    urls: {
      status: `/v1/runs/${runId}`,
      events: `/v1/runs/${runId}/events`,
      stop: `/v1/runs/${runId}/stop`,
      approval: `/v1/runs/${runId}/approval`,
    },
  };
  return { status: 202, headers: { ...runHeaders(started), location: body.urls.status }, body };
}

/** Of a run that this request did not make. */
function statusOf(runId: string, { store }: HttpRoom) {
  return store.read
    .selectFrom("runs")
    .select(["status", "created_at"])
    .where("id", "=", runId)
    .executeTakeFirstOrThrow();
}

async function toPrompt(request: CreateRequest, room: HttpRoom): Promise<Prompt> {
  const { body, headers, ctx } = request;
  const { session_key: key, session_id: id } = body;
  const model = requestedModel({ header: headers["x-agent-model"], body: body.model, isStrict: true }, room);
  return {
    address: sessionAddress(ctx.identity, headers, id, { key, path: "" }),
    seed: { source: "http" },
    kind: "run",
    input: await toInput(request, room),
    ...requestedWebhook(body.webhook, "webhook", room),
    ...(model ? { model } : {}),
    ...(body.metadata ? { metadata: body.metadata } : {}),
  };
}

async function toInput(request: CreateRequest, room: HttpRoom): Promise<Prompt["input"]> {
  const { body } = request;
  const toolsets = checkToolsets(body.toolsets, "toolsets", room);
  const history = await conversation(body.conversation_history ?? [], "conversation_history", request, room);
  const asked = await askedWith(request, room);
  checkText(body.instructions ?? "", "instructions", room);
  const texts = [body.instructions ?? "", history.instructions, asked.instructions];
  const instructions = texts.filter((text) => text !== "").join("\n\n");
  return {
    opening: [...history.messages, ...asked.opening],
    prompt: asked.prompt,
    settings: {},
    isDetached: true,
    ...approvals(body.approval_mode),
    ...(instructions === "" ? {} : { instructions }),
    ...(toolsets ? { toolsets } : {}),
    ...(body.timeout_seconds === undefined ? {} : { timeoutMs: body.timeout_seconds * 1000 }),
  };
}

interface Asked {
  readonly instructions: string;
  readonly opening: readonly Message[];
  readonly prompt: readonly Message[];
}

/** The input: what comes after the last answer in it is the prompt. */
async function askedWith(request: CreateRequest, room: HttpRoom): Promise<Asked> {
  const { input } = request.body;
  if (typeof input === "string") {
    checkText(input, "input", room);
    return { instructions: "", opening: [], prompt: [{ role: "user", text: input }] };
  }
  const { messages, instructions } = await conversation(input, "input", request, room);
  const start = messages.findLastIndex((message) => message.role === "assistant") + 1;
  const prompt = messages.slice(start);
  if (prompt.length > 0) return { instructions, opening: messages.slice(0, start), prompt };
  const what = "The last item must come from the user or a tool: it is what the agent answers.";
  throw new ServiceError("invalid_request", what, { param: "input" });
}

async function conversation(
  items: readonly InputItem[],
  param: string,
  { signal }: CreateRequest,
  room: HttpRoom,
): Promise<ItemConversation> {
  checkCount(items.length, param, room);
  const read = await toConversation(items, { param, room, signal });
  const [loose] = read.answers;
  if (!loose) return read;
  const what = `${loose.param} names no call of this conversation.`;
  throw new ServiceError("invalid_request", what, { param: loose.param });
}
