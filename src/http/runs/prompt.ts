import type { InputItem } from "../../../generated/http/client/types.gen.ts";
import type { Message } from "../../agent/message.ts";
import type { Prompt } from "../../agent/run/prompt.ts";
import type { SessionAddress } from "../../agent/session/session.ts";
import { ServiceError } from "../../base/errors.ts";
import type { ResponseRow } from "../../store/schema/tables.ts";
import type { HttpRequest } from "../edge/contract.ts";
import { toConversation, type ItemConversation } from "../responses/items.ts";
import {
  approvals,
  checkCount,
  checkText,
  checkToolsets,
  requestedModel,
  requestedWebhook,
} from "../edge/request-options.ts";
import { findPrevious } from "../responses/store.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import { sessionAddress } from "../prompt/session.ts";

export type CreateRunHttpRequest = HttpRequest<"createRun", HttpContext>;

/** A request for a run in the agent's terms, but for the session it goes into. */
export interface RunPlan {
  readonly prompt: Omit<Prompt, "address">;
  /** Where it goes without `previous`. */
  readonly address: SessionAddress;
  /** The stored response that it goes on from. */
  readonly previous: ResponseRow | undefined;
}

/** Reads a request that fits the schema; refuses what the schema cannot see. */
export async function planRun(request: CreateRunHttpRequest, deps: HttpDeps): Promise<RunPlan> {
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
    previous: previousId == null ? undefined : await findPrevious(deps, previousId, ctx.identity.name),
    prompt: {
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
  const asked = await askedWith(request, deps);
  const instructions = [body.instructions ?? "", history.instructions, asked.instructions]
    .filter((text) => text !== "")
    .join("\n\n");
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
async function askedWith(request: CreateRunHttpRequest, deps: HttpDeps): Promise<Asked> {
  const { input } = request.body;
  if (typeof input === "string") {
    checkText(input, "input", deps);
    return { instructions: "", opening: [], prompt: [{ role: "user", text: input }] };
  }
  const { messages, instructions } = await conversation(input, "input", request, deps);
  const start = messages.findLastIndex(({ role }) => role === "assistant") + 1;
  const prompt = messages.slice(start);
  if (prompt.length > 0) return { instructions, opening: messages.slice(0, start), prompt };
  const what = "The last item must come from the user or a tool: it is what the agent answers.";
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
  const [loose] = read.answers;
  if (!loose) return read;
  const what = `${loose.param} is ${JSON.stringify(loose.callId)}, and no such call stands in ${param}.`;
  throw new ServiceError("invalid_request", what, { param: loose.param });
}
