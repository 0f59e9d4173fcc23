import type { ToolIntent } from "./tool.ts";

/** How much the agent may do unasked: `ask` for what is risky, `always_ask` for all but reads, `yolo` for nothing. */
export type PolicyMode = "ask" | "always_ask" | "yolo";

/** Where the call happens; absolute paths. */
export interface PolicyContext {
  readonly mode: PolicyMode;
  readonly workspace: string;
  readonly home: string;
  readonly agentHome: string;
}

export interface PolicyDecision {
  readonly verdict: "allow" | "ask" | "deny";
  /** For people and for the model; says what is risky, or why it is not. */
  readonly reason: string;
  /** What an answer for the whole session covers: the tool's kind and the shape of the command. */
  readonly signature: string;
}

/** What the policy says to one call. Pure. */
export function decide(intent: ToolIntent, context: PolicyContext): PolicyDecision {
  const signature = `${intent.kind}:${intent.command ?? (intent.writes ?? []).join(" ")}`;
  const pure = intent.kind === "file" && (intent.writes ?? []).length === 0;
  if (pure || context.mode === "yolo") return { verdict: "allow", reason: "it only reads", signature };
  return { verdict: "ask", reason: "it may change something", signature };
}
