import type { RunUsage } from "../../../generated/http/client/types.gen.ts";
import type { GatewayUsage, MessageCompletePayload } from "../../../generated/gateway/types/types.gen.ts";
import { errorTable, type ErrorRow } from "../../base/errors.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";

/** Figures in the gateway's names; absent figures are zero. */
export function usageOf(usage: unknown, model: string): GatewayUsage {
  const of = (usage ?? {}) as Partial<RunUsage>;
  const input = of.input_tokens ?? 0;
  const output = of.output_tokens ?? 0;
  return {
    model,
    input,
    output,
    cache_read: of.cached_input_tokens ?? 0,
    cache_write: of.cache_write_tokens ?? 0,
    reasoning: of.reasoning_tokens ?? 0,
    prompt: input,
    completion: output,
    total: of.total_tokens ?? input + output,
    calls: of.model_calls ?? 0,
    ...(typeof of.cost_usd === "number"
      ? { cost_usd: of.cost_usd, cost_status: "estimated" as const }
      : { cost_status: "unknown" as const }),
  };
}

/** How a turn ended. `usage` is the turn's own; the `session.info` that follows has the session's. */
export function completePayload(
  entry: JournalEvent,
  turn: { readonly model: string; readonly output: string | undefined },
): MessageCompletePayload {
  const { type, data } = entry;
  const steer = data["pending_steer"] as string[] | undefined;
  const about = {
    usage: usageOf(data["usage"], turn.model),
    ...(steer && steer.length > 0 ? { undelivered_steer: steer } : {}),
  };
  if (type === "run.completed") {
    const warning = STOP_WARNINGS[String(data["stop"])];
    const output = typeof data["output"] === "string" ? data["output"] : "";
    return { text: output, status: "complete", ...about, ...(warning === undefined ? {} : { warning }) };
  }
  const said = turn.output ?? "";
  const partial = said === "" ? {} : { partial: true };
  if (type === "run.cancelled") return { text: said, status: "interrupted", ...about, ...partial };
  const error = data["error"] as { readonly code: string; readonly message: string };
  return {
    text: said,
    // A process that ended under a turn did not fail at it.
    status: type === "run.interrupted" ? "interrupted" : "error",
    ...about,
    ...partial,
    error: error.message,
    error_info: { code: error.code, retryable: isRetryable(error.code), layer: layerOf(error.code) },
  };
}

const STOP_WARNINGS: Readonly<Record<string, string>> = {
  length: "The answer was cut: it reached the greatest length.",
  max_steps: "The turn ended because it took the greatest number of steps (agent.max_steps).",
  refusal: "The model refused.",
};

function isRetryable(code: string): boolean {
  const rows: Readonly<Record<string, ErrorRow>> = errorTable;
  return rows[code]?.retryable ?? false;
}

function layerOf(code: string): string {
  return /provider|model|context/.test(code) ? "provider" : "agent";
}
