import type { AskChoice } from "../../generated/http/client/types.gen.ts";
import { redact } from "../base/redact.ts";
import type { SettledAnswer, ToolCall } from "./engine.ts";
import { decide, type PolicyDecision } from "./policy.ts";
import { OURSELVES } from "./question.ts";
import type { ToolCallScope } from "./tool-scope.ts";
import type { ToolIntent } from "./tool.ts";

/** What may be answered, by how long leave may be kept. */
const choices = {
  never: ["once", "deny"],
  session: ["once", "session", "deny"],
  always: ["once", "session", "always", "deny"],
} as const satisfies Readonly<Record<PolicyDecision["remember"], readonly AskChoice[]>>;

/** What becomes of a call: it goes ahead, it is refused, or people are asked. */
export type Judgement =
  | { readonly verdict: "allow" }
  | { readonly verdict: "refuse"; readonly answer: SettledAnswer }
  | { readonly verdict: "ask"; readonly decision: PolicyDecision };

const ALLOW: Judgement = { verdict: "allow" };

/** By policy, and by leave given before. */
export async function judge(call: ToolCall, intent: ToolIntent, scope: ToolCallScope): Promise<Judgement> {
  const decision = storable(decide(intent, await scope.policy(), call.tool));
  if (decision.verdict === "deny") return refuse(`Refused: ${decision.reason}`);
  // Who was asked decides, though the call would need no leave by now: the answer may be there.
  if (scope.prior) return { verdict: "ask", decision };
  if (decision.verdict === "allow") return ALLOW;
  if (decision.remember !== "never" && (await scope.grants.allows(scope.subject, decision.signature)))
    return ALLOW;
  if (!scope.answerable) {
    return refuse(
      `Denied: this needs approval (${decision.reason}), and nobody can give it on this connection. ` +
        "Find another way, or tell the user what you would have done.",
    );
  }
  return { verdict: "ask", decision };
}

/** Undefined when the call may go ahead: by judgement, or by an answer now. */
export async function permission(
  call: ToolCall,
  intent: ToolIntent,
  { judgement, scope }: { readonly judgement: Judgement; readonly scope: ToolCallScope },
): Promise<SettledAnswer | undefined> {
  if (judgement.verdict === "allow") return undefined;
  return judgement.verdict === "refuse" ? judgement.answer : ask(call, intent, judgement.decision, scope);
}

async function ask(
  call: ToolCall,
  intent: ToolIntent,
  decision: PolicyDecision,
  scope: ToolCallScope,
): Promise<SettledAnswer | undefined> {
  const title = redact(intent.title);
  const question = {
    tool: call.tool,
    kind: intent.kind,
    title,
    description: redact(decision.reason),
    ...(intent.command === undefined ? {} : { command: redact(intent.command) }),
    choices: choices[decision.remember],
    ...(decision.remember === "never" ? {} : { covers: coverOf(intent, decision) }),
  };
  const { asks, signal, subject, prior } = scope;
  // What a sub-agent asks is asked of the run at the top of its family, where it is no call.
  const callId = subject.runId === scope.runId ? call.callId : undefined;
  const options = { timeoutMs: scope.timeouts.approvalMs, signal, callId };
  // Whoever hears the question has heard of the call that asks.
  await scope.recorded();
  const outcome = prior
    ? await asks.attach(prior, { signal })
    : await asks.ask("approval", subject, question, options);
  if (outcome.status === "cancelled")
    return { status: "aborted", text: "The run was stopped before an answer came." };
  if (outcome.status === "expired") {
    if (scope.onTimeout === "cancel") scope.stopRun("an approval was not answered in time");
    return denied("Denied: nobody answered in time.");
  }
  const { owner, sessionId } = scope.subject;
  const { signature } = decision;
  if (outcome.choice === "deny") {
    const by = outcome.by === OURSELVES ? "Denied" : "Denied by the user";
    return denied(outcome.reason ? `${by}: ${outcome.reason}` : `${by}.`);
  }
  // What may be kept is what the policy says now: the question may be older.
  if (outcome.choice === "session" && decision.remember !== "never")
    scope.grants.allowForSession({ owner, sessionId }, signature);
  if (outcome.choice === "always" && decision.remember === "always") {
    await scope.grants.allowAlways({ owner, signature, tool: call.tool, title });
  }
  if (await asks.take(outcome.id, { signal })) return undefined;
  return { status: "aborted", text: "This leave was made use of by another process." };
}

/** What leave that is kept is for, without the kind of call, which everybody sees. */
function coverOf({ kind }: ToolIntent, { signature }: PolicyDecision): string {
  const prefix = `${kind}:`;
  return redact(signature.startsWith(prefix) ? signature.slice(prefix.length) : signature);
}

/** A signature with a secret in it must not be stored, and without the secret it would cover more than was allowed. */
function storable(decision: PolicyDecision): PolicyDecision {
  const { remember, signature } = decision;
  if (remember !== "always" || redact(signature) === signature) return decision;
  return { ...decision, remember: "session" };
}

const denied = (text: string): SettledAnswer => ({ status: "denied", text });
const refuse = (text: string): Judgement => ({ verdict: "refuse", answer: denied(text) });
