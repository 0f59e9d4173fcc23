import type { ClarifyQuestion } from "../../../generated/http/client/types.gen.ts";
import { forgetSecret, redact, redactValue, registerSecret } from "../../base/observe/redact.ts";
import { RedactStream } from "../../base/observe/redact-stream.ts";
import type { QuestionOutcome } from "../question/questions.ts";
import type { ToolCall } from "../engine.ts";
import { runEvent } from "../run/event.ts";
import type { QuestionKind, AskQuestions } from "../question/question.ts";
import type { ToolCallScope } from "./scope.ts";
import { ToolError, type Questions, type ToolContext } from "./tool.ts";
import { headOf } from "../../base/text.ts";

/** Live output of one call that people get to see; the rest is only in the result. */
const MAX_PROGRESS_CHARACTERS = 262_144;

/** What one call may reach. `end` takes back what it was lent. */
export function toolContext(
  call: ToolCall,
  scope: ToolCallScope,
): { readonly context: ToolContext; readonly end: () => void } {
  const passwords: string[] = [];
  const progress = progressOf(call, scope);
  const context: ToolContext = {
    callId: call.callId,
    runId: scope.runId,
    sessionId: scope.sessionId,
    owner: scope.subject.owner,
    model: scope.model,
    cwd: scope.cwd,
    signal: scope.signal,
    progress: progress.show,
    questions: questionsOf(call, scope, passwords),
    variables: scope.variables,
    complete: scope.complete,
    delegate: (tasks) => scope.delegate(call.callId, tasks, scope.span.traceparent),
    todos: scope.todos,
    ...(scope.files ? { files: scope.files } : {}),
  };
  const end = () => {
    // Before the passwords are forgotten: what is held back may hold one.
    progress.flush();
    passwords.forEach(forgetSecret);
  };
  return { context, end };
}

function progressOf(
  call: ToolCall,
  scope: ToolCallScope,
): { readonly show: ToolContext["progress"]; readonly flush: () => void } {
  let left = MAX_PROGRESS_CHARACTERS;
  const stream = new RedactStream();
  const record = (delta: string) => {
    if (delta === "") return;
    scope.record(
      runEvent(scope.runId, "tool.progress", { tool_call_id: call.callId, tool: call.tool, delta }),
    );
  };
  return {
    show: (text) => {
      scope.sign();
      if (left <= 0 || text === "") return;
      const piece = headOf(text, left);
      left -= text.length;
      record(stream.push(piece));
    },
    flush: () => {
      left = 0;
      record(stream.end());
    },
  };
}

function questionsOf({ callId }: ToolCall, scope: ToolCallScope, passwords: string[]): Questions {
  const asking: Asking = { scope, callId };
  return {
    clarify: async (questions) => {
      const outcome = await ask(asking, "clarify", {
        questions: redactValue(questions) as ClarifyQuestion[],
      });
      if (outcome.status === "answered") return outcome.answers;
      throw unanswered(outcome, scope);
    },
    sudo: async (command) => {
      const outcome = await ask(asking, "sudo", { command: redact(command) });
      if (outcome.status === "cancelled") throw unanswered(outcome, scope);
      const password = outcome.status === "answered" ? outcome.password : undefined;
      if (password === undefined) return undefined;
      passwords.push(password);
      registerSecret(password, { minLength: 4 });
      return password;
    },
    secret: async ({ prompt, envVar }) => {
      const outcome = await ask(asking, "secret", { prompt: redact(prompt), env_var: envVar });
      if (outcome.status === "cancelled") throw unanswered(outcome, scope);
      return outcome.status === "answered" && outcome.stored ? "stored" : "skipped";
    },
  };
}

interface Asking {
  readonly scope: ToolCallScope;
  /** The call at work. */
  readonly callId: string;
}

async function ask<K extends QuestionKind>(
  { scope, callId: asker }: Asking,
  kind: K,
  question: AskQuestions[K],
): Promise<QuestionOutcome<K>> {
  if (!scope.answerable || scope.onlyApprovals) {
    throw new ToolError(
      "Nobody can answer a question in this run. Go on with what you know, or say what you would need.",
      { code: "not_answerable" },
    );
  }
  const { clarifyMs, passwordMs } = scope.timeouts;
  const timeoutMs = kind === "clarify" ? clarifyMs : passwordMs;
  // What a sub-agent asks is asked of the run at the top of its family, where it is no call.
  const callId = scope.subject.runId === scope.runId ? asker : undefined;
  // Whoever hears the question has heard of the call that asks.
  await scope.recorded();
  return scope.questions.ask(kind, scope.subject, question, { timeoutMs, signal: scope.signal, callId });
}

function unanswered(outcome: { readonly status: string }, scope: ToolCallScope): unknown {
  if (outcome.status === "cancelled" && scope.signal.aborted) return scope.signal.reason;
  const text = "Nobody answered in time. Go on with your best judgement, and say what you assumed.";
  return new ToolError(text, { code: "approval_expired" });
}
