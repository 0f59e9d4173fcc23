import type { CreateResponseRequest, InputItem } from "../../../generated/http/client/types.gen.ts";
import type { ModelSettings, Message } from "../../agent/engine.ts";
import type { Prompt } from "../../agent/run/run.ts";
import { checkSessionName, findSession, type SessionAddress } from "../../agent/session/session.ts";
import { ServiceError } from "../../base/errors.ts";
import type { ResponseRow } from "../../store/schema/tables.ts";
import type { Identity } from "../edge/access.ts";
import type { HttpRequest } from "../edge/contract.ts";
import { toConversation, type ItemConversation, resolveReferences } from "./input-items.ts";
import {
  approvals,
  checkCount,
  checkText,
  checkToolsets,
  clientTools,
  outputFormat,
  type RequestedChoice,
  requestedModel,
  requestedWebhook,
  sessionAddress,
  withKey,
} from "../prompt/fields.ts";
import type { ResponseEcho } from "./reducer.ts";
import { findPrevious, type ResponseRecord } from "./queries.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";

export type CreateRequest = HttpRequest<"createResponse", HttpContext>;

/** A request for a response, translated for the agent, without its session. */
export interface ResponsePlan {
  readonly prompt: Omit<Prompt, "address" | "alsoRecord" | "admit">;
  /** The session without `previous`. */
  readonly address: SessionAddress;
  readonly identity: Identity;
  /** The response that the request continues. */
  readonly previous: ResponseRow | undefined;
  readonly record: ResponseRecord;
}

/** Translates a request that fits the schema. Rejects unsupported parameters, and what the schema cannot express. */
export async function planResponse(request: CreateRequest, deps: HttpDeps): Promise<ResponsePlan> {
  const { body, headers, ctx } = request;
  refuseUnsupported(body);
  const { owner } = ctx.identity;
  const { traceparent } = ctx;
  const address = addressOf(request);
  const previous =
    body.previous_response_id == null
      ? undefined
      : await findPrevious(deps, body.previous_response_id, owner);
  const model = requestedModel({ header: headers["x-agent-model"], body: body.model }, deps);
  const items = await resolveReferences(deps.store, inputItems(body, deps), owner);
  const conversation = await splitItems(items, { request, deps, address, previous });
  const { toolItems, showReasoning, modelName } = deps.settings;
  return {
    prompt: {
      ...withKey(request.ctx),
      seed: { source: "http" },
      kind: "response",
      input: {
        ...conversation,
        ...options(body, deps),
        ...(traceparent === undefined ? {} : { traceparent }),
      },
      ...(model ? { model } : {}),
      ...(body.metadata ? { metadata: body.metadata } : {}),
      ...requestedWebhook(body.agent?.webhook, "agent.webhook", deps),
    },
    address,
    identity: ctx.identity,
    previous,
    record: {
      request: { echo: echoOf(body, modelName), toolItems, showReasoning },
      input: items,
      conversation: conversationOf(body),
      previousId: previous?.id,
    },
  };
}

function refuseUnsupported(body: CreateResponseRequest): void {
  const refuse = (param: string, what: string) => {
    throw new ServiceError("invalid_request", what, { param });
  };
  if (body.background === true && body.store === false) {
    const what = "A background response must be stored. Omit store, or set it to true.";
    refuse("store", what);
  }
  if (body.previous_response_id != null && conversationOf(body) !== undefined) {
    const what = "Name either the conversation or the previous response, not both.";
    refuse("conversation", what);
  }
}

/** Returns the session that the request names. A conversation is a session key in the body. */
function addressOf({ body, headers, ctx }: CreateRequest): SessionAddress {
  const conversation = conversationOf(body);
  const { session_id: sessionId } = body.agent ?? {};
  if (conversation === undefined) return sessionAddress(ctx.identity, headers, sessionId);
  const key = headers["x-agent-session-key"];
  if (key !== undefined && key !== conversation) {
    const what = "conversation and X-Agent-Session-Key name different conversations.";
    throw new ServiceError("invalid_request", what, { param: "conversation" });
  }
  if (ctx.identity.authenticated) checkSessionName("key", conversation, "conversation");
  return sessionAddress(ctx.identity, headers, sessionId, { key: conversation });
}

function inputItems({ input }: CreateResponseRequest, deps: HttpDeps): readonly InputItem[] {
  if (typeof input === "string") {
    checkText(input, "input", deps);
    if (input === "") throw emptyInput();
    return [{ type: "message", role: "user", content: [{ type: "input_text", text: input }] }];
  }
  if (!input || input.length === 0) throw emptyInput();
  checkCount(input.length, "input", deps);
  return input;
}

function emptyInput(): ServiceError {
  return new ServiceError("missing_required_parameter", "input is missing. The agent answers it.", {
    param: "input",
  });
}

interface ConversationContext {
  readonly request: CreateRequest;
  readonly deps: HttpDeps;
  readonly address: SessionAddress;
  readonly previous: ResponseRow | undefined;
}

/** Splits the items into earlier messages, the prompt, and instructions. */
async function splitItems(
  items: readonly InputItem[],
  { request, deps, address, previous }: ConversationContext,
): Promise<{
  readonly opening: readonly Message[];
  readonly prompt: readonly Message[];
  readonly instructions?: string;
}> {
  const { body, signal } = request;
  // A client that names only a session may send the whole conversation, as in the chat format.
  const sendsAll = previous === undefined && conversationOf(body) === undefined;
  const read = await toConversation(items, { param: "input", deps, signal, continues: !sendsAll });
  const calls = await pendingCalls(deps, address, previous);
  const all = withToolNames(read, calls);
  const messages = sendsAll ? all : withoutKnown(all, calls);
  if (messages.at(-1)?.role !== "user" && messages.at(-1)?.role !== "tool") {
    const what = "The last item must come from the user or a tool. The agent answers it.";
    throw new ServiceError("invalid_request", what, { param: "input" });
  }
  const start = sendsAll ? messages.findLastIndex(({ role }) => role === "assistant") + 1 : 0;
  const instructions = [body.instructions ?? "", read.instructions].filter((text) => text !== "");
  checkText(body.instructions ?? "", "instructions", deps);
  return {
    opening: messages.slice(0, start),
    prompt: messages.slice(start),
    ...(instructions.length === 0 ? {} : { instructions: instructions.join("\n\n") }),
  };
}

async function pendingCalls(
  { store, agent }: HttpDeps,
  address: SessionAddress,
  previous: ResponseRow | undefined,
): Promise<ReadonlyMap<string, string>> {
  const { reads } = agent.sessions;
  if (previous) return reads.pendingClientCalls(previous.session_id, previous.run_id);
  const session = await findSession(store, address);
  return session ? reads.pendingClientCalls(session.id) : new Map();
}

/** Fills in the tool names of results. ServiceError `invalid_request` for a result without a pending call. */
function withToolNames(
  { messages, answers }: ItemConversation,
  calls: ReadonlyMap<string, string>,
): readonly Message[] {
  for (const { callId, param } of answers) {
    if (calls.has(callId)) continue;
    const what = `${param} is ${JSON.stringify(callId)}, and no such call is pending here.`;
    throw new ServiceError("invalid_request", what, { param });
  }
  const unmatched = new Set(answers.map(({ callId }) => callId));
  return messages.map((message) =>
    message.role === "tool" && unmatched.has(message.callId)
      ? { ...message, tool: calls.get(message.callId) ?? message.tool }
      : message,
  );
}

/** Drops calls that the session already has. Some clients send them again with their results. */
function withoutKnown(messages: readonly Message[], calls: ReadonlyMap<string, string>): readonly Message[] {
  if (calls.size === 0) return messages;
  return messages.flatMap((message): readonly Message[] => {
    if (message.role !== "assistant") return [message];
    const parts = message.parts.filter((part) => part.type !== "tool_call" || !calls.has(part.callId));
    return parts.length === 0 ? [] : [{ ...message, parts }];
  });
}

function options(body: CreateResponseRequest, deps: HttpDeps) {
  const toolsets = checkToolsets(body.agent?.toolsets, "agent.toolsets", deps);
  const isDetached = body.background === true || body.agent?.on_disconnect === "continue";
  return {
    settings: modelSettings(body),
    ...approvals(body.agent?.approval_mode),
    ...clientTools(body.tools ?? [], requestedChoice(body.tool_choice)),
    ...outputFormat(body.text?.format, "text.format"),
    ...(isDetached ? { isDetached: true as const } : {}),
    ...(toolsets ? { toolsets } : {}),
  };
}

function requestedChoice(choice: CreateResponseRequest["tool_choice"]): RequestedChoice | undefined {
  if (typeof choice !== "object" || choice === null) return choice ?? undefined;
  if (choice.type === "function") return choice;
  return { mode: choice.mode, allowed: choice.tools.map(({ name }) => name) };
}

function modelSettings(body: CreateResponseRequest): ModelSettings {
  const effort = body.reasoning?.effort;
  return {
    ...(body.temperature == null ? {} : { temperature: body.temperature }),
    ...(body.top_p == null ? {} : { topP: body.top_p }),
    ...(body.max_output_tokens == null ? {} : { maxOutputTokens: body.max_output_tokens }),
    ...(effort == null ? {} : { reasoningEffort: effort }),
  };
}

/** Returns the response fields that the request decides, with defaults. */
export function echoOf(body: CreateResponseRequest, modelName: string): ResponseEcho {
  const conversation = conversationOf(body);
  return {
    model: body.model ?? modelName,
    previous_response_id: body.previous_response_id ?? null,
    ...(conversation === undefined ? {} : { conversation: { id: conversation } }),
    instructions: body.instructions ?? null,
    tools: (body.tools ?? []).map(({ name, description, parameters, strict }) => ({
      type: "function",
      name,
      description: description ?? null,
      parameters: parameters ?? null,
      strict: strict ?? null,
    })),
    tool_choice: toolChoice(body),
    truncation: body.truncation ?? "disabled",
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    text: { format: body.text?.format ?? { type: "text" } },
    top_p: body.top_p ?? 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    top_logprobs: 0,
    temperature: body.temperature ?? 1,
    reasoning: reasoning(body),
    max_output_tokens: body.max_output_tokens ?? null,
    max_tool_calls: body.max_tool_calls ?? null,
    store: body.store ?? true,
    background: body.background ?? false,
    service_tier: "default",
    metadata: body.metadata ?? {},
    safety_identifier: body.safety_identifier ?? null,
    prompt_cache_key: body.prompt_cache_key ?? null,
    ...(body.user == null ? {} : { user: body.user }),
  };
}

/** Returns the client's name of the conversation, if the request has one. */
function conversationOf({ conversation }: CreateResponseRequest): string | undefined {
  if (conversation === undefined || conversation === null) return undefined;
  return typeof conversation === "string" ? conversation : conversation.id;
}

function toolChoice({ tool_choice: choice }: CreateResponseRequest): ResponseEcho["tool_choice"] {
  if (choice === undefined || choice === null) return "auto";
  if (typeof choice === "string") return choice;
  if (choice.type === "function") return { type: "function", name: choice.name };
  const tools = choice.tools.map(({ name }) => ({ type: "function" as const, name }));
  return { type: "allowed_tools", mode: choice.mode, tools };
}

type Reasoning = NonNullable<ResponseEcho["reasoning"]>;

const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh"] as const;
const SUMMARIES = ["auto", "concise", "detailed"] as const;

/** Returns only known values, because clients validate them. */
function reasoning({ reasoning: requested }: CreateResponseRequest): Reasoning | null {
  if (requested === undefined || requested === null) return null;
  return {
    effort: EFFORTS.find((effort) => effort === requested.effort) ?? null,
    summary: SUMMARIES.find((summary) => summary === requested.summary) ?? null,
  };
}
