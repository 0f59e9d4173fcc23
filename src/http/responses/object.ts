import type {
  CreateResponseRequest,
  Response as ResponseObject,
  ResponseUsage,
  RunUsage,
} from "../../../generated/http/client/types.gen.ts";

export type { ResponseObject };

/** What a response repeats of its request, and how its items are shown: kept with it, so that a replay is the same. */
export interface ResponseRequest {
  readonly echo: ResponseEcho;
  readonly toolItems: ToolItems;
  readonly showReasoning: boolean;
}

/** How calls of the agent's own tools are shown. */
export type ToolItems = "mcp_call" | "function_call" | "none";

type OwnFields =
  | "id"
  | "object"
  | "created_at"
  | "completed_at"
  | "status"
  | "incomplete_details"
  | "output"
  | "error"
  | "usage"
  | "agent";

export type ResponseEcho = Omit<ResponseObject, OwnFields>;

/** The fields of a response that its request decides, each with its default. */
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
    text: { format: { type: "text" } },
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

/** The client's name of the conversation, if it gives one. */
export function conversationOf({ conversation }: CreateResponseRequest): string | undefined {
  if (conversation === undefined || conversation === null) return undefined;
  return typeof conversation === "string" ? conversation : conversation.id;
}

function toolChoice({ tool_choice: choice }: CreateResponseRequest): ResponseEcho["tool_choice"] {
  if (choice === undefined || choice === null) return "auto";
  return typeof choice === "string" ? choice : { type: "function", name: choice.name };
}

type Reasoning = NonNullable<ResponseEcho["reasoning"]>;

const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh"] as const;
const SUMMARIES = ["auto", "concise", "detailed"] as const;

/** Clients hold what they get back to the known words. */
function reasoning({ reasoning: asked }: CreateResponseRequest): Reasoning | null {
  if (asked === undefined || asked === null) return null;
  return {
    effort: EFFORTS.find((effort) => effort === asked.effort) ?? null,
    summary: SUMMARIES.find((summary) => summary === asked.summary) ?? null,
  };
}

export function toResponseUsage(usage: RunUsage): ResponseUsage {
  return {
    input_tokens: usage.input_tokens,
    input_tokens_details: {
      cached_tokens: usage.cached_input_tokens,
      cache_write_tokens: usage.cache_write_tokens,
    },
    output_tokens: usage.output_tokens,
    output_tokens_details: { reasoning_tokens: usage.reasoning_tokens },
    total_tokens: usage.total_tokens,
  };
}

/** Of a response that ended before anything was counted. */
export const noUsage: ResponseUsage = {
  input_tokens: 0,
  input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
  output_tokens: 0,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 0,
};
