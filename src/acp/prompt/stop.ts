/** Why a turn ended, in the words of the protocol. Pure. */
import type { PromptResponse, StopReason, Usage } from "@agentclientprotocol/sdk/unstable";
import type { ProviderFailure, RunUsage } from "../../../generated/http/client/types.gen.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { runFailed } from "../wire/error.ts";

const STOPS: Readonly<Record<string, StopReason>> = {
  end: "end_turn",
  length: "max_tokens",
  max_steps: "max_turn_requests",
  refusal: "refusal",
  tool_calls: "end_turn",
};

/** The answer that the final event of a run makes. RequestError when the run failed. */
export function stopOf(
  { type, data }: Pick<JournalEvent, "type" | "data">,
  options: { readonly authMethods: readonly unknown[]; readonly endsWithQuestion?: boolean },
): PromptResponse {
  const usage = usageOf(data["usage"] as RunUsage | undefined);
  switch (type) {
    case "run.completed":
      return { stopReason: STOPS[String(data["stop"])] ?? "end_turn", ...usage };
    case "run.cancelled":
      return { stopReason: options.endsWithQuestion === true ? "end_turn" : "cancelled", ...usage };
    default:
      throw runFailed(
        {
          ...(data["error"] as { readonly code: string; readonly message: string }),
          failure: data["failure"] as ProviderFailure | undefined,
          retryAfterSeconds: data["retry_after_seconds"] as number | undefined,
        },
        options.authMethods,
      );
  }
}

function usageOf(usage: RunUsage | undefined): { readonly usage?: Usage } {
  if (!usage || usage.model_calls === 0) return {};
  return {
    usage: {
      totalTokens: usage.total_tokens,
      inputTokens: usage.input_tokens,
      outputTokens: usage.output_tokens,
      thoughtTokens: usage.reasoning_tokens,
      cachedReadTokens: usage.cached_input_tokens,
      cachedWriteTokens: usage.cache_write_tokens,
    },
  };
}
