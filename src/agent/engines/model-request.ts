import type { ModelMessage } from "ai";
import type { ModelSettings, OutputFormat, ToolChoice, ToolSpec } from "../engine.ts";
import type { ProviderConfig } from "./providers.ts";

/** One model call. */
export interface ModelCallRequest {
  readonly provider: ProviderConfig;
  readonly modelId: string;
  /** "" for none. */
  readonly instructions: string;
  readonly messages: readonly ModelMessage[];
  readonly tools: readonly ToolSpec[];
  /** Returns what is wrong with the arguments of a call. */
  readonly checkInput: (tool: ToolSpec, value: unknown) => string | undefined;
  readonly toolChoice: ToolChoice | undefined;
  /** The format that the provider gets as a parameter. */
  readonly format: OutputFormat | undefined;
  readonly settings: ModelSettings;
  readonly traceparent: string | undefined;
}

const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh"] as const;

/** Returns a reasoning effort that providers know. The API accepts any text, providers do not. */
export function knownEffort(effort: string | undefined): (typeof EFFORTS)[number] | undefined {
  return EFFORTS.find((each) => each === effort);
}
