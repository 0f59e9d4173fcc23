/** The usage of a run as it is stored and sent. Pure. */
import type { RunUsage } from "../../../generated/http/client/types.gen.ts";
import { type ModelUsage, type Usage, usageByModel } from "../engine.ts";
import { costUsd, NANO } from "./money.ts";

/** Returns the usage of a run of `model` with the wire's names, by model if others answered too. */
export function toRunUsage(usage: Usage, model: string): RunUsage {
  const { others } = usage;
  if (!others) return toModelUsage(usage);
  const byModel = usageByModel(usage, model).flatMap(([name, used]) =>
    used && used.modelCalls > 0 ? [{ model: name, ...toModelUsage(used) }] : [],
  );
  return { ...toModelUsage(usage), by_model: byModel };
}

function toModelUsage(usage: ModelUsage): Omit<RunUsage, "by_model"> {
  const tokens = usage.inputTokens + usage.outputTokens;
  return {
    input_tokens: usage.inputTokens,
    output_tokens: usage.outputTokens,
    total_tokens: tokens,
    cached_input_tokens: usage.cachedInputTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    reasoning_tokens: usage.reasoningTokens,
    cost_usd: costUsd({ ...usage, tokens }),
    unpriced_tokens: usage.unpricedTokens,
    model_calls: usage.modelCalls,
    tool_calls: usage.toolCalls,
  };
}

/** Returns what {@link toRunUsage} wrote. */
export function readRunUsage(usage: RunUsage, model: string): Usage {
  const others = usage.by_model?.filter((used) => used.model !== model);
  const own = fromModelUsage(usage);
  if (!others || others.length === 0) return own;
  return { ...own, others: Object.fromEntries(others.map((used) => [used.model, fromModelUsage(used)])) };
}

function fromModelUsage(usage: Omit<RunUsage, "by_model">): ModelUsage {
  return {
    inputTokens: usage.input_tokens,
    outputTokens: usage.output_tokens,
    cachedInputTokens: usage.cached_input_tokens,
    cacheWriteTokens: usage.cache_write_tokens,
    reasoningTokens: usage.reasoning_tokens,
    modelCalls: usage.model_calls,
    toolCalls: usage.tool_calls,
    costNano: Math.round((usage.cost_usd ?? 0) * NANO),
    unpricedTokens: usage.unpriced_tokens,
  };
}

/** Returns the sum of two usages, without its split by model. */
export function addRunUsage(a: RunUsage, b: RunUsage): RunUsage {
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    total_tokens: a.total_tokens + b.total_tokens,
    cached_input_tokens: a.cached_input_tokens + b.cached_input_tokens,
    cache_write_tokens: a.cache_write_tokens + b.cache_write_tokens,
    reasoning_tokens: a.reasoning_tokens + b.reasoning_tokens,
    cost_usd: addUsd(a.cost_usd, b.cost_usd),
    unpriced_tokens: a.unpriced_tokens + b.unpriced_tokens,
    model_calls: a.model_calls + b.model_calls,
    tool_calls: a.tool_calls + b.tool_calls,
  };
}

/** Unknown costs are missing from the sum; their tokens are in `unpriced_tokens`. */
function addUsd(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.round((a + b) * NANO) / NANO;
}
