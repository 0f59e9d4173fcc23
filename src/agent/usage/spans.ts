/**
 * The spans that report runs, named after OpenTelemetry's semantic conventions for generative AI, 1.41.
 */
import { noSpan, type Span, type Tracer } from "../../base/observe.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import type { ModelRef } from "../model.ts";
import type { ModelSettings, ToolCall, TurnEnd, ToolStatus } from "../engine.ts";
import type { Usage } from "./usage.ts";
import type { Outcome } from "../run/run.ts";

/** How runs are traced. */
export interface AgentTracing {
  readonly tracer: Tracer;
  readonly agentName: string;
}

/** The endpoint of a model. */
interface ModelEndpoint {
  readonly name: string;
  readonly type: string;
  readonly baseUrl?: string;
}

const MAX_NAME_CHARACTERS = 128;

/** Starts the span of a run. Its parent is the request that created the run, however long the run was queued. */
export function startRunSpan(
  { tracer, agentName }: AgentTracing,
  run: Pick<RunRow, "id" | "session_id" | "kind" | "model">,
  parent: string | undefined,
): Span {
  const span = tracer.start(`invoke_agent ${agentName}`, { parent });
  if (!span.isRecording) return span;
  const colon = run.model.indexOf(":");
  span.set({
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.provider.name": run.model.slice(0, colon),
    "gen_ai.request.model": run.model.slice(colon + 1),
    "gen_ai.agent.name": agentName,
    "gen_ai.conversation.id": run.session_id,
    "agentd.run.id": run.id,
    "agentd.run.kind": run.kind,
  });
  return span;
}

/** Adds a run's result. The span stays open until that result is recorded. */
export function describeRunEnd(span: Span, end: TurnEnd, { status, event }: Outcome): void {
  span.set({
    ...usageOf(end.usage),
    "gen_ai.response.finish_reasons": [end.stop],
    "agentd.run.status": status,
    "agentd.run.model_calls": end.usage.modelCalls,
    "agentd.run.tool_calls": end.usage.toolCalls,
  });
  const { error } = event.data as { readonly error?: { readonly code: string } };
  if (error) span.fail(error.code);
}

/** Starts the span of one model call with all its attempts. */
export function startModelSpan(
  parent: Span | undefined,
  ref: ModelRef,
  from: { readonly provider: ModelEndpoint; readonly settings: ModelSettings },
): Span {
  const span = parent?.child(`chat ${ref.id}`, { kind: "client" }) ?? noSpan;
  if (!span.isRecording) return span;
  const { provider, settings } = from;
  span.set({
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": providerName(provider),
    "gen_ai.request.model": ref.id,
    "gen_ai.request.temperature": settings.temperature,
    "gen_ai.request.top_p": settings.topP,
    "gen_ai.request.max_tokens": settings.maxOutputTokens,
    "gen_ai.request.seed": settings.seed,
    ...addressOf(provider.baseUrl),
  });
  return span;
}

/** Ends the span; `finish` is undefined for an interrupted answer. */
export function endModelSpan(
  span: Span,
  end: { readonly usage: Usage; readonly finish: string | undefined; readonly error?: unknown },
): void {
  if (!span.isRecording) return;
  span.set(usageOf(end.usage));
  if (end.finish !== undefined) span.set({ "gen_ai.response.finish_reasons": [end.finish] });
  if (end.error !== undefined) span.fail(end.error);
  span.end();
}

/** Starts the span of one tool call with the questions it waits for. */
export function startToolSpan(parent: Span, { tool, callId }: ToolCall): Span {
  const name = tool.slice(0, MAX_NAME_CHARACTERS);
  const span = parent.child(`execute_tool ${name}`);
  if (!span.isRecording) return span;
  span.set({
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": name,
    "gen_ai.tool.call.id": callId.slice(0, MAX_NAME_CHARACTERS),
    "gen_ai.tool.type": "function",
  });
  return span;
}

export function endToolSpan(span: Span, status: ToolStatus): void {
  if (!span.isRecording) return;
  span.set({ "agentd.tool.status": status });
  if (status === "error") span.fail("tool_error");
  span.end();
}

function usageOf(usage: Usage) {
  return {
    "gen_ai.usage.input_tokens": usage.inputTokens,
    "gen_ai.usage.output_tokens": usage.outputTokens,
    "gen_ai.usage.cache_read.input_tokens": usage.cachedInputTokens,
    "gen_ai.usage.cache_creation.input_tokens": usage.cacheWriteTokens,
    "gen_ai.usage.reasoning.output_tokens": usage.reasoningTokens,
  };
}

/** Returns the well-known name, or the configured one. */
function providerName({ type, name }: ModelEndpoint): string {
  if (type === "google") return "gcp.gemini";
  return type === "openai_compatible" ? name : type;
}

function addressOf(baseUrl: string | undefined) {
  const url = baseUrl === undefined ? null : URL.parse(baseUrl);
  if (!url) return {};
  const port = url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port);
  return { "server.address": url.hostname, "server.port": port };
}
