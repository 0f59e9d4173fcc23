import { judgeCommand } from "./policy/command-judge.ts";
import { ask, judgeRead, judgeWrite, placeOf, type Finding } from "./policy/path-judge.ts";
import type { ToolIntent } from "./tool.ts";

/** How much the agent may do unasked: `ask` for what is risky, `always_ask` for all but reads, `yolo` for nothing. */
export type PolicyMode = "ask" | "always_ask" | "yolo";

/** Where the call happens; absolute paths without `.` and `..`. */
export interface PolicyContext {
  readonly mode: PolicyMode;
  readonly workspace: string;
  readonly home: string;
  readonly agentHome: string;
}

export interface PolicyDecision {
  readonly verdict: "allow" | "ask" | "deny";
  /** For people and for the model; says what is risky, or why nothing is. */
  readonly reason: string;
  /** What an answer for the whole session covers: the kind of call, and what about it was minded. */
  readonly signature: string;
}

interface Judgement {
  readonly findings: readonly Finding[];
  readonly looksOnly: boolean;
  /** The shape of a call against which there is nothing to say. */
  readonly shape: string;
}

const MAX_REASONS = 3;

/**
 * What the policy says to one call. It judges the text of commands, not what programs do once they run: a guard
 * against accidents and careless models, beside which a sandbox keeps its worth. Pure; never throws.
 */
export function decide(intent: ToolIntent, context: PolicyContext): PolicyDecision {
  const { findings, looksOnly, shape } =
    intent.command === undefined ? judgeFiles(intent, context) : judgeShell(intent.command, context);
  const denied = findings.filter((finding) => finding.verdict === "deny");
  if (denied.length > 0)
    return { verdict: "deny", reason: reasonsOf(denied), signature: `${intent.kind}:never` };
  const shapes =
    findings.length > 0 ? [...new Set(findings.map((finding) => finding.shape))].toSorted() : [shape];
  const signature = `${intent.kind}:${shapes.join(" | ")}`;
  if (context.mode === "yolo") return { verdict: "allow", reason: "approvals are switched off", signature };
  if (findings.length > 0) return { verdict: "ask", reason: reasonsOf(findings), signature };
  if (context.mode === "always_ask" && !looksOnly)
    return { verdict: "ask", reason: "it may change something", signature };
  return { verdict: "allow", reason: looksOnly ? "it only reads" : "it is an ordinary change", signature };
}

function judgeShell(command: string, context: PolicyContext): Judgement {
  // Without findings the text itself is the shape: an answer covers the same command only.
  return { ...judgeCommand(command, context), shape: command.trim() };
}

function judgeFiles({ kind, reads = [], writes = [], title }: ToolIntent, context: PolicyContext): Judgement {
  const found = [
    ...reads.map((path) => judgeRead(path, context)),
    ...writes.map((path) => judgeWrite(path, context)),
    ...(kind === "network" ? [ask("it reaches another machine", title)] : []),
  ].filter((finding) => finding !== undefined);
  const places = [...new Set(writes.map((path) => placeOf(path, context)))].toSorted();
  const looksOnly = writes.length === 0 && kind === "file";
  return { findings: found, looksOnly, shape: looksOnly ? "read" : `write ${places.join(", ") || title}` };
}

function reasonsOf(findings: readonly Finding[]): string {
  const reasons = [...new Set(findings.map((finding) => finding.reason))];
  const more = reasons.length > MAX_REASONS ? `; and ${reasons.length - MAX_REASONS} more` : "";
  return `${reasons.slice(0, MAX_REASONS).join("; ")}${more}`;
}
