/** Decides whether a tool call may run: by the policy, by what was approved before, or by asking people. */
import type { AskChoice, FileChange, ToolEndCode } from "../../../generated/http/client/types.gen.ts";
import { toServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe.ts";
import type { QuestionOutcome } from "./questions.ts";
import type { SettledAnswer, ToolCall } from "../engine.ts";
import type { ToolIntent } from "../tool/tool.ts";
import type { SessionMode } from "../session/session.ts";
import { decide, type PolicyContext, type PolicyDecision } from "./policy/policy.ts";
import { OURSELVES, signatureOf, type ApprovalQuestion } from "./question.ts";
import { diffsOf, type ToolCallScope } from "../tool/scope.ts";

/** What people may answer, by how long an approval may be remembered. */
const choices = {
  never: ["once", "deny"],
  session: ["once", "session", "deny"],
  always: ["once", "session", "always", "deny"],
} as const satisfies Readonly<Record<PolicyDecision["remember"], readonly AskChoice[]>>;

/** What happens to a call: it runs, it is refused, or people are asked. */
export type Evaluation =
  | { readonly outcome: "allow" }
  | { readonly outcome: "refuse"; readonly answer: SettledAnswer }
  | { readonly outcome: "ask"; readonly decision: PolicyDecision };

const ALLOW: Evaluation = { outcome: "allow" };

/** Evaluates a call by the policy as it is now, and by what was approved before. */
export async function evaluate(
  call: ToolCall,
  intent: ToolIntent,
  scope: ToolCallScope,
): Promise<Evaluation> {
  const context = await scope.policy();
  const decision = storable(decide(intent, context, call.tool));
  if (decision.outcome === "deny") return { outcome: "refuse", answer: refused(decision) };
  // A question that was asked before a restart decides, even if the policy would allow the call by now.
  if (scope.prior) return { outcome: "ask", decision };
  if (scope.grants.denies(scope.subject, decision.signature)) {
    return { outcome: "refuse", answer: denied("denied_by_user", DENIED_FOR_SESSION) };
  }
  if (decision.outcome === "allow") return ALLOW;
  if (decision.remember !== "never" && (await scope.grants.allows(scope.subject, decision.signature)))
    return ALLOW;
  if (scope.answerable) return { outcome: "ask", decision };
  const text = notAnswerable(decision, wayOut(call, intent, context));
  return { outcome: "refuse", answer: denied("not_answerable", text) };
}

/** Undefined when the call may run: by its evaluation, or because a person approves it now. */
export async function permission(
  call: ToolCall,
  intent: ToolIntent,
  {
    evaluation,
    changes,
    scope,
  }: {
    readonly evaluation: Evaluation;
    /** What the call would change in files, redacted. */
    readonly changes: readonly FileChange[] | undefined;
    readonly scope: ToolCallScope;
  },
): Promise<SettledAnswer | undefined> {
  if (evaluation.outcome === "allow") return undefined;
  if (evaluation.outcome === "refuse") return evaluation.answer;
  const { decision } = evaluation;
  const outcome = await ask(questionFor(call, intent, { decision, changes }), scope, call.callId);
  if (outcome.status === "cancelled") {
    return { status: "aborted", code: "cancelled", text: "The run was stopped before an answer came." };
  }
  if (outcome.status === "expired") {
    if (scope.onTimeout === "cancel") scope.stopRun("an approval was not answered in time");
    return denied("approval_expired", "Denied: no answer came in time.");
  }
  if (outcome.choice === "deny" && outcome.forSession) await keepDenial(outcome, decision, scope);
  if (outcome.choice === "deny") return deniedBy(outcome);
  // The policy may have changed while the question was open, and an answer does not lift what it refuses now.
  const now = decide(intent, await scope.policy(), call.tool);
  if (now.outcome === "deny") return refused(now);
  await remember(outcome, decision, { tool: call.tool, title: redact(intent.title), scope });
  const { sessionId } = scope.subject;
  if (await scope.questions.take(outcome.id, { sessionId, signal: scope.signal })) return undefined;
  return { status: "aborted", code: "interrupted", text: "Another process used this approval." };
}

function questionFor(
  call: ToolCall,
  intent: ToolIntent,
  {
    decision,
    changes,
  }: { readonly decision: PolicyDecision; readonly changes: readonly FileChange[] | undefined },
): ApprovalQuestion {
  const { remember, signature, reason } = decision;
  return {
    tool: call.tool,
    kind: intent.kind,
    title: redact(intent.title),
    description: redact(reason),
    ...(intent.command === undefined ? {} : { command: redact(intent.command) }),
    choices: choices[remember],
    ...(remember === "never" ? {} : { covers: coverOf(call, intent, decision) }),
    ...(changes ? { changes: diffsOf(changes) } : {}),
    ...(remember === "never" || redact(signature) !== signature ? {} : { signature }),
  };
}

async function ask(
  question: ApprovalQuestion,
  scope: ToolCallScope,
  callId: string,
): Promise<QuestionOutcome> {
  const { questions, signal, subject, prior } = scope;
  // People who see the question have seen the call that it is about.
  await scope.recorded();
  if (prior) return questions.attach(prior, { signal });
  // A sub-agent's question belongs to the run at the top of its family, which has no such call.
  const own = subject.runId === scope.runId ? { callId } : {};
  return questions.ask("approval", subject, question, {
    timeoutMs: scope.timeouts.approvalMs,
    signal,
    ...own,
  });
}

type Answered = Extract<QuestionOutcome, { readonly status: "answered" }>;

function deniedBy({ by, reason }: Answered): SettledAnswer {
  const [code, who] =
    by === OURSELVES
      ? (["not_answerable", "Denied"] as const)
      : (["denied_by_user", "Denied by the user"] as const);
  if (!reason) return denied(code, `${who}.`);
  return { ...denied(code, `${who}: ${reason}`), reason };
}

/** Keeps an approval that covers more than the call, and answers the other open questions that it covers. */
async function remember(
  { choice, by }: Answered,
  decision: PolicyDecision,
  { tool, title, scope }: { readonly tool: string; readonly title: string; readonly scope: ToolCallScope },
): Promise<void> {
  const { signature } = decision;
  const { owner, sessionId } = scope.subject;
  if (choice === "session" && decision.remember !== "never") {
    scope.grants.allowForSession({ owner, sessionId }, signature);
  } else if (choice === "always" && decision.remember === "always") {
    await scope.grants.allowAlways({ owner, signature, tool, title }, by);
  } else return;
  await answerCovered(signature, scope, { by: OURSELVES, choice: "once", reason: COVERED });
}

/** Keeps a denial for the session, and denies the other open questions that it covers. */
async function keepDenial(
  { by, reason = COVERED }: Answered,
  { signature }: PolicyDecision,
  scope: ToolCallScope,
): Promise<void> {
  scope.grants.denyForSession(scope.subject, signature);
  await answerCovered(signature, scope, { by, choice: "deny", reason });
}

const DENIED_FOR_SESSION = "Denied by the user for this session. Do not call it again.";

interface CoveringAnswer {
  readonly by: string;
  readonly choice: AskChoice;
  readonly reason: string;
}

async function answerCovered(
  signature: string,
  { questions, subject }: ToolCallScope,
  covering: CoveringAnswer,
): Promise<void> {
  const { owner, sessionId } = subject;
  for (const row of await questions.open({ sessionId })) {
    if (row.owner !== owner || signatureOf(row) !== signature) continue;
    const answer = { owner, ...covering };
    await questions.answer(row.id, answer).catch((error: unknown) => {
      // Someone answered it meanwhile, or it expired.
      if (toServiceError(error).code !== "ask_not_pending") throw error;
    });
  }
}

const COVERED = "another answer covers it";

/** What a remembered approval covers: its signature without the kind of call, and with names that people know. */
function coverOf(
  { tool }: ToolCall,
  { kind, identity = tool }: ToolIntent,
  { signature }: PolicyDecision,
): string {
  const prefix = `${kind}:`;
  const shape = signature.startsWith(prefix) ? signature.slice(prefix.length) : signature;
  return redact(shape.replace(identity, () => tool));
}

/** A signature with a secret in it must not be stored, and without the secret it would cover more than was approved. */
function storable(decision: PolicyDecision): PolicyDecision {
  const { remember, signature } = decision;
  if (remember !== "always" || redact(signature) === signature) return decision;
  return { ...decision, remember: "session" };
}

/** Says why the call is denied and what would allow it; people read it as well as the model. */
function notAnswerable({ reason }: PolicyDecision, way: string): string {
  return (
    `Denied: this requires approval (${reason}), and no one can answer in this run. ${way} Do not look for a way around ` +
    "it: do what you can without it, and report to the user what was denied and what would allow it."
  );
}

function wayOut({ tool }: ToolCall, intent: ToolIntent, context: PolicyContext): string {
  const { command, writes = [] } = intent;
  const isAllowedIn = (sessionMode: SessionMode) =>
    decide(intent, { ...context, sessionMode }, tool).outcome === "allow";
  // What asks in every mode is lifted by no setting.
  if (command !== undefined) return isAllowedIn("dont_ask") ? ALLOW_COMMANDS : WHERE_PEOPLE_ANSWER;
  return writes.length > 0 && isAllowedIn("accept_edits") ? ACCEPT_EDITS : WHERE_PEOPLE_ANSWER;
}

const WHERE_PEOPLE_ANSWER =
  "The user can run it where someone can answer: in `agentd chat`, in an editor, or over HTTP with " +
  "approval_mode `wait`.";
const ALLOW_COMMANDS =
  "The user can allow such commands by adding the words they begin with to `approvals.allow` in the configuration, or " +
  "run it where someone can answer, such as `agentd chat` or an editor.";
const ACCEPT_EDITS =
  "The user can allow edits in the working folder with `/mode accept_edits`, or run it where someone can answer, " +
  "such as `agentd chat` or an editor.";

const refused = ({ reason }: PolicyDecision): SettledAnswer =>
  denied("denied_by_policy", `Refused: ${reason}`);
const denied = (code: ToolEndCode, text: string): SettledAnswer => ({ status: "denied", code, text });
