import type { AskChoice } from "../../generated/http/client/types.gen.ts";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/log.ts";
import { redact, redactValue } from "../base/redact.ts";
import type { NewEvent } from "../store/journal.ts";
import type { Asks, AskSubject } from "./ask.ts";
import type { ToolAnswer, ToolCall } from "./engine.ts";
import { runEvent } from "./event.ts";
import { decide, type PolicyContext, type PolicyDecision } from "./policy.ts";
import { ToolError, type Tool, type ToolIntent } from "./tool.ts";

/** Live output of one call that people get to see; the rest is only in the result. */
const MAX_PROGRESS_CHARACTERS = 262_144;
const PREVIEW_CHARACTERS = 400;
const APPROVAL_CHOICES: readonly AskChoice[] = ["once", "session", "deny"];

/** What a run lends to its tool calls. */
export interface ToolCallScope {
  readonly subject: AskSubject;
  readonly tools: ReadonlyMap<string, Tool>;
  readonly cwd: string;
  readonly policy: PolicyContext;
  readonly answerable: boolean;
  readonly approvalTimeoutMs: number;
  /** `deny` refuses the call when nobody answers in time, `cancel` stops the whole run. */
  readonly onTimeout: "deny" | "cancel";
  /** Signatures somebody allowed for the rest of the session. */
  readonly grants: Set<string>;
  readonly asks: Asks;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly checkInput: (tool: Tool, input: unknown) => string | undefined;
  readonly record: (event: NewEvent) => void;
  readonly stopRun: (reason: string) => void;
}

/**
 * One tool call from the model's wish to its answer: known? well-formed? allowed? Then run it. Every way this can end
 * is an answer the model reads; it never rejects.
 */
export async function callTool(call: ToolCall, scope: ToolCallScope): Promise<ToolAnswer> {
  const startedMs = scope.clock.now();
  const { runId } = scope.subject;
  const answer = await attempt(call, scope);
  const text = redact(answer.text);
  scope.record(
    runEvent(runId, "tool.completed", {
      tool_call_id: call.callId,
      tool: call.tool,
      status: answer.status,
      duration: (scope.clock.now() - startedMs) / 1000,
      error: answer.status !== "ok",
      preview: text.slice(0, PREVIEW_CHARACTERS),
    }),
  );
  return { status: answer.status, text };
}

async function attempt(call: ToolCall, scope: ToolCallScope): Promise<ToolAnswer> {
  const tool = scope.tools.get(call.tool);
  const problem = tool ? (call.invalid ?? scope.checkInput(tool, call.input)) : unknownTool(call.tool, scope);
  if (!tool || problem !== undefined) {
    started(call, scope, undefined);
    return { status: "error", text: problem ?? unknownTool(call.tool, scope) };
  }
  try {
    const intent = inspect(tool, call, scope);
    const refusal = await permission(call, intent, scope);
    if (refusal) return refusal;
    scope.signal.throwIfAborted();
    return { status: "ok", text: await run(tool, call, scope) };
  } catch (error) {
    return failure(error, call, scope);
  }
}

/** What the call is about to do; people see that it began also when that cannot be told. */
function inspect(tool: Tool, call: ToolCall, scope: ToolCallScope): ToolIntent {
  try {
    const intent = tool.inspect(call.input as never, { cwd: scope.cwd });
    started(call, scope, intent);
    return intent;
  } catch (error) {
    started(call, scope, undefined);
    throw error;
  }
}

/** Undefined when the call may go ahead. */
async function permission(
  call: ToolCall,
  intent: ToolIntent,
  scope: ToolCallScope,
): Promise<ToolAnswer | undefined> {
  const decision = decide(intent, scope.policy);
  if (decision.verdict === "allow") return undefined;
  if (decision.verdict === "deny") return denied(`Refused: ${decision.reason}`);
  if (scope.grants.has(decision.signature)) return undefined;
  if (!scope.answerable) {
    return denied(
      `Denied: this needs approval (${decision.reason}), and nobody can give it on this connection. ` +
        "Find another way, or tell the user what you would have done.",
    );
  }
  return ask(call, intent, decision, scope);
}

async function ask(
  call: ToolCall,
  intent: ToolIntent,
  decision: PolicyDecision,
  scope: ToolCallScope,
): Promise<ToolAnswer | undefined> {
  const question = {
    tool: call.tool,
    kind: intent.kind,
    title: redact(intent.title),
    description: redact(decision.reason),
    ...(intent.command === undefined ? {} : { command: redact(intent.command) }),
    choices: APPROVAL_CHOICES,
  };
  const options = { timeoutMs: scope.approvalTimeoutMs, signal: scope.signal };
  const outcome = await scope.asks.approval(scope.subject, question, options);
  if (outcome.status === "cancelled")
    return { status: "aborted", text: "The run was stopped before an answer came." };
  if (outcome.status === "expired") {
    if (scope.onTimeout === "cancel") scope.stopRun("an approval was not answered in time");
    return denied("Denied: nobody answered in time.");
  }
  if (outcome.choice === "deny") return denied("Denied by the user.");
  if (outcome.choice === "session") scope.grants.add(decision.signature);
  return undefined;
}

async function run(tool: Tool, call: ToolCall, scope: ToolCallScope): Promise<string> {
  let left = MAX_PROGRESS_CHARACTERS;
  const progress = (text: string): void => {
    if (left <= 0 || text === "") return;
    const delta = redact(text.slice(0, left));
    left -= text.length;
    scope.record(
      runEvent(scope.subject.runId, "tool.progress", { tool_call_id: call.callId, tool: call.tool, delta }),
    );
  };
  return tool.run(call.input as never, {
    callId: call.callId,
    sessionId: scope.subject.sessionId,
    cwd: scope.cwd,
    signal: scope.signal,
    progress,
  });
}

function started(call: ToolCall, scope: ToolCallScope, intent: ToolIntent | undefined): void {
  scope.record(
    runEvent(scope.subject.runId, "tool.started", {
      tool_call_id: call.callId,
      tool: call.tool,
      ...(intent ? { preview: redact(intent.title) } : {}),
      arguments: redactValue(call.input),
    }),
  );
}

function failure(error: unknown, call: ToolCall, scope: ToolCallScope): ToolAnswer {
  if (scope.signal.aborted) return { status: "aborted", text: "The call was stopped before it finished." };
  if (error instanceof ToolError) return { status: "error", text: error.message };
  scope.log.error("a tool failed unexpectedly", { run: scope.subject.runId, tool: call.tool, error });
  return {
    status: "error",
    text: `The tool ${call.tool} failed inside the server; its log has the details.`,
  };
}

function unknownTool(name: string, scope: ToolCallScope): string {
  const known = [...scope.tools.keys()].join(", ");
  return `There is no tool ${JSON.stringify(name)}. Tools: ${known === "" ? "none" : known}.`;
}

const denied = (text: string): ToolAnswer => ({ status: "denied", text });
