import type { ToolSpec } from "./engine.ts";

/**
 * A tool the agent may call. `run` does the work and resolves to what the model reads.
 *
 * A tool
 * - MUST bound what it reads, writes, prints and waits for, and say so in its text when a bound cut something.
 * - MUST stop, with the processes it started, when `context.signal` aborts.
 * - throws {@link ToolError} for what the model can mend (a missing file, an ambiguous patch); anything else is a bug.
 */
export interface Tool extends ToolSpec {
  /** Which named set it belongs to. */
  readonly toolset: string;
  /** What the policy looks at, worked out from checked input; see src/agent/policy.ts. */
  inspect(input: never, context: { readonly cwd: string }): ToolIntent;
  run(input: never, context: ToolContext): Promise<string>;
}

export interface ToolContext {
  readonly callId: string;
  readonly sessionId: string;
  /** Absolute path; relative paths in the input resolve against it. */
  readonly cwd: string;
  readonly signal: AbortSignal;
  /** Live output for people; may be called often, is merged and capped downstream. */
  progress(text: string): void;
}

/** What a call is about to do, in terms that policy and people understand. */
export interface ToolIntent {
  readonly kind: "command" | "file" | "network" | "tool";
  /** One line for people, such as `Run: ls -la`. */
  readonly title: string;
  readonly command?: string;
  readonly reads?: readonly string[];
  readonly writes?: readonly string[];
}

/** A failure the model should read and can act on. */
export class ToolError extends Error {
  override readonly name = "ToolError";
}

/** Declares a tool with its input type; the schema in `parameters` is what holds the model to that type. */
export function defineTool<Input>(tool: {
  readonly name: string;
  readonly toolset: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  inspect(input: Input, context: { readonly cwd: string }): ToolIntent;
  run(input: Input, context: ToolContext): Promise<string>;
}): Tool {
  return tool as unknown as Tool;
}
