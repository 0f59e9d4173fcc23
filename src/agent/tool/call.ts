import type { ClarifyQuestion, FileChange, Todo } from "../../../generated/http/client/types.gen.ts";
import { RedactStream, forgetSecret, redact, redactValue, registerSecret } from "../../base/observe.ts";
import { headOf, tailOf } from "../../base/text.ts";
import type { SettledAnswer, ToolAnswer, ToolCall } from "../engine.ts";
import {
  type Questions,
  type Tool,
  type ToolContext,
  ToolError,
  type ToolIntent,
  type ToolOutput,
} from "./tool.ts";
import { evaluate, type Evaluation, permission } from "../question/permission.ts";
import type { QuestionContent, QuestionKind } from "../question/question.ts";
import type { QuestionOutcome } from "../question/questions.ts";
import { runEvent } from "../run/event.ts";
import { endToolSpan, startToolSpan } from "../usage/spans.ts";
import { type CallPosition, type ToolCallScope, shownChanges } from "./scope.ts";

const PREVIEW_CHARACTERS = 400;
/** What people see of a result; the model reads all of it. */
const MAX_RESULT_CHARACTERS = 65_536;

/**
 * Handles one tool call from the model: checks that the tool exists, that the arguments are valid and that the call is
 * allowed, then runs it. Never rejects: every outcome is an answer that the model reads.
 */
export async function callTool(call: ToolCall, scope: ToolCallScope): Promise<ToolAnswer> {
  if (scope.clientTools.has(call.tool)) return handOver(call, scope);
  const startedMs = scope.clock.now();
  const span = startToolSpan(scope.span, call);
  let endsTurn: true | undefined;
  const own = { ...scope, span, endTurn: () => void (endsTurn = true) };
  const { status, code, reason, ...output } = await attempt(call, own);
  endToolSpan(span, status);
  const text = bounded(redact(output.text));
  const durationMs = scope.clock.now() - startedMs;
  const why = { ...(code === undefined ? {} : { code }), ...(reason === undefined ? {} : { reason }) };
  scope.record(
    runEvent(scope.runId, "tool.completed", {
      tool_call_id: call.callId,
      tool: call.tool,
      status,
      ...why,
      duration: durationMs / 1000,
      error: status !== "ok",
      preview: headOf(text, PREVIEW_CHARACTERS),
      result: tailOf(text, MAX_RESULT_CHARACTERS),
      ...omittedOf(text),
      ...(output.exit ? { exit: output.exit } : {}),
      ...(output.images?.length ? { images: [...output.images] } : {}),
      ...(output.changes ? { changes: shownChanges(output.changes) } : {}),
      ...(output.todos ? { todos: redactValue(output.todos) as Todo[] } : {}),
    }),
  );
  return { status, text, ...why, durationMs, ...(endsTurn ? { endsTurn } : {}) };
}

function omittedOf(text: string): { readonly omitted_bytes?: number } {
  if (text.length <= MAX_RESULT_CHARACTERS) return {};
  const shown = tailOf(text, MAX_RESULT_CHARACTERS);
  return { omitted_bytes: Buffer.byteLength(text) - Buffer.byteLength(shown) };
}

/** A call for the client: the turn ends with it, and a later turn brings the answer. */
function handOver({ callId, tool, input, invalid }: ToolCall, scope: ToolCallScope): ToolAnswer {
  if (invalid !== undefined) return { status: "error", code: "invalid", text: invalid };
  scope.request({ id: callId, name: tool, arguments: JSON.stringify(redactValue(input) ?? {}) });
  return { status: "pending", text: "The client has not answered this call." };
}

/** Tools limit their own answers. This limit protects the context and the transcript from those that do not. */
const MAX_ANSWER_CHARACTERS = 400_000;

function bounded(text: string): string {
  if (text.length <= MAX_ANSWER_CHARACTERS) return text;
  const half = MAX_ANSWER_CHARACTERS / 2;
  const [head, tail] = [headOf(text, half), tailOf(text, half)];
  const cut = text.length - head.length - tail.length;
  return `${head}\n[... ${cut} characters omitted ...]\n${tail}`;
}

type Attempt = SettledAnswer & Omit<ToolOutput, "text" | "code">;

async function attempt(call: ToolCall, scope: ToolCallScope): Promise<Attempt> {
  const tool = scope.tools.get(call.tool);
  const position = scope.order.next();
  try {
    const problem = tool
      ? (call.invalid ?? scope.checkInput(tool, call.input))
      : unknownTool(call.tool, scope);
    if (!tool || problem !== undefined) {
      await position.reached;
      started(call, scope, { tool });
      return { status: "error", code: "invalid", text: problem ?? unknownTool(call.tool, scope) };
    }
    const about = await inspect(tool, call, { scope, position });
    started(call, scope, { tool, ...about });
    position.release();
    const refusal = await permission(call, about.intent, { ...about, scope });
    if (refusal) return refusal;
    await scope.beforeRun();
    scope.signal.throwIfAborted();
    return { status: "ok", ...(await run(tool, call, { scope, intent: about.intent })) };
  } catch (error) {
    return failure(error, call, scope);
  } finally {
    position.release();
  }
}

interface About {
  readonly intent: ToolIntent;
  readonly evaluation: Evaluation;
  readonly changes: FileChange[] | undefined;
}

/** Inspects and evaluates the call, then waits for its turn. Reports its start even when this fails. */
async function inspect(
  tool: Tool,
  call: ToolCall,
  { scope, position }: { readonly scope: ToolCallScope; readonly position: CallPosition },
): Promise<About> {
  let intent: ToolIntent | undefined;
  try {
    intent = tool.inspect(call.input as never, { cwd: scope.cwd });
    const evaluation = await evaluate(call, intent, scope);
    const isSeen = !scope.prior && mayBeShown(intent, evaluation);
    const changes = isSeen ? await previewOf(tool, call, scope) : undefined;
    await position.reached;
    return { intent, evaluation, changes };
  } catch (error) {
    await position.reached;
    started(call, scope, { tool, intent });
    throw error;
  }
}

/** Files with secrets require approval each time; their content stays hidden until then. */
function mayBeShown({ kind }: ToolIntent, evaluation: Evaluation): boolean {
  if (evaluation.outcome !== "ask") return evaluation.outcome === "allow";
  return kind !== "file" || evaluation.decision.remember !== "never";
}

async function run(
  tool: Tool,
  call: ToolCall,
  { scope, intent }: { readonly scope: ToolCallScope; readonly intent: ToolIntent },
): Promise<ToolOutput> {
  const { sessionMode, roots = [] } = await scope.policy();
  const { context, end } = toolContext(call, scope, {
    roots,
    isPlanning: sessionMode === "plan",
    approvedPaths: [...(intent.reads ?? []), ...(intent.writes ?? [])],
  });
  const abandoned = abandonment(scope);
  try {
    const output = await Promise.race([tool.run(call.input as never, context), abandoned.rejection]);
    // Redacts before `end` forgets the call's passwords.
    return typeof output === "string" ? { text: redact(output) } : { ...output, text: redact(output.text) };
  } catch (error) {
    if (error instanceof ToolError) throw new ToolError(redact(error.message), error);
    throw scope.signal.aborted ? error : unexpected(error, call, scope);
  } finally {
    abandoned.cancel();
    end();
  }
}

/** How long an aborted tool may take to stop. After that the run ends without it. */
const STOP_GRACE_MS = 10_000;

function abandonment({ signal, clock }: ToolCallScope): {
  readonly rejection: Promise<never>;
  readonly cancel: () => void;
} {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => {});
  let cancelTimer = (): void => {};
  const onAbort = () => void (cancelTimer = clock.after(STOP_GRACE_MS, () => reject(signal.reason)));
  signal.addEventListener("abort", onAbort, { once: true });
  const cancel = () => {
    cancelTimer();
    signal.removeEventListener("abort", onAbort);
  };
  return { rejection: promise, cancel };
}

function started(
  call: ToolCall,
  scope: ToolCallScope,
  {
    tool,
    intent,
    evaluation,
    changes,
  }: { readonly tool: Tool | undefined } & {
    readonly [K in keyof About]?: About[K] | undefined;
  },
): void {
  if (scope.prior) return; // its start was recorded when it began to wait
  const paths = [...(intent?.writes ?? []), ...(intent?.reads ?? [])];
  scope.record(
    runEvent(scope.runId, "tool.started", {
      tool_call_id: call.callId,
      tool: call.tool,
      kind: tool?.kind ?? "other",
      ...(intent ? { preview: redact(intent.title) } : {}),
      arguments: redactValue(call.input),
      ...(paths.length > 0 ? { paths: [...new Set(paths)].map(redact) } : {}),
      ...(changes ? { changes } : {}),
      ...(evaluation?.outcome === "ask" ? { waits: true } : {}),
    }),
  );
}

function failure(error: unknown, call: ToolCall, scope: ToolCallScope): SettledAnswer {
  if (scope.signal.aborted) return { status: "aborted", code: "cancelled", text: STOPPED };
  const { message, code } = error instanceof ToolError ? error : unexpected(error, call, scope);
  return { status: "error", code, text: message };
}

const STOPPED = "The call was stopped before it finished.";

/**
 * Logs a bug and returns what the model reads about it. Runs while the call's passwords are still registered for
 * redaction.
 */
function unexpected(error: unknown, call: ToolCall, scope: ToolCallScope): ToolError {
  scope.log.error("a tool failed unexpectedly", { run: scope.runId, tool: call.tool, error });
  const text = `The tool ${call.tool} failed inside the server; the service's log has the details.`;
  return new ToolError(text, { code: "internal_error" });
}

function unknownTool(name: string, scope: ToolCallScope): string {
  const available = [...scope.tools.keys()].join(", ");
  return `No tool is named ${JSON.stringify(name)}. Tools: ${available === "" ? "none" : available}.`;
}

/** Limit of one call's live output. The rest appears only in the result. */
const MAX_PROGRESS_CHARACTERS = 262_144;

/** Returns the context of one call. `end` withdraws it. */
function toolContext(
  call: ToolCall,
  scope: ToolCallScope,
  { isPlanning, approvedPaths, roots }: Required<Pick<ToolContext, "isPlanning" | "approvedPaths" | "roots">>,
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
    roots,
    isPlanning,
    ...(approvedPaths.length > 0 ? { approvedPaths } : {}),
    signal: scope.signal,
    progress: progress.show,
    questions: questionsOf(call, scope, passwords),
    variables: scope.variables,
    complete: scope.complete,
    delegate: (tasks) => scope.delegate(call.callId, tasks, scope.span.traceparent),
    todos: scope.todos,
    chooseMode: scope.chooseMode,
    ...(scope.files ? { files: scope.files } : {}),
  };
  const end = () => {
    // Flushes first: the held-back text may contain a password.
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
      scope.keepAlive();
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
  const source: QuestionSource = { scope, callId };
  return {
    clarify: async (questions) => {
      const outcome = await ask(source, "clarify", {
        questions: redactValue(questions) as ClarifyQuestion[],
      });
      if (outcome.status !== "answered") throw unanswered(outcome, scope);
      if (outcome.endsTurn) scope.endTurn?.();
      return outcome.answers;
    },
    sudo: async (command) => {
      const outcome = await ask(source, "sudo", { command: redact(command) });
      if (outcome.status === "cancelled") throw unanswered(outcome, scope);
      const password = outcome.status === "answered" ? outcome.password : undefined;
      if (password === undefined) return undefined;
      passwords.push(password);
      registerSecret(password, { minLength: 4 });
      return password;
    },
    secret: async ({ prompt, envVar }) => {
      const outcome = await ask(source, "secret", { prompt: redact(prompt), env_var: envVar });
      if (outcome.status === "cancelled") throw unanswered(outcome, scope);
      return outcome.status === "answered" && outcome.stored ? "stored" : "skipped";
    },
  };
}

interface QuestionSource {
  readonly scope: ToolCallScope;
  readonly callId: string;
}

async function ask<K extends QuestionKind>(
  { scope, callId: ownCallId }: QuestionSource,
  kind: K,
  question: QuestionContent[K],
): Promise<QuestionOutcome<K>> {
  if (!scope.answerable || scope.onlyApprovals) {
    throw new ToolError(
      "This run cannot ask questions. Continue with what you know, or state what you would need.",
      { code: "not_answerable" },
    );
  }
  const { clarifyMs, passwordMs } = scope.timeouts;
  const timeoutMs = kind === "clarify" ? clarifyMs : passwordMs;
  // A sub-agent's question belongs to the run at the top of its family, which has no such call.
  const callId = scope.subject.runId === scope.runId ? ownCallId : undefined;
  // Clients must know the call before they get its question.
  await scope.recorded();
  return scope.questions.ask(kind, scope.subject, question, { timeoutMs, signal: scope.signal, callId });
}

function unanswered(outcome: { readonly status: string }, scope: ToolCallScope): unknown {
  if (outcome.status === "cancelled" && scope.signal.aborted) return scope.signal.reason;
  const text = "The question was not answered in time. Decide for yourself, and state what you assumed.";
  return new ToolError(text, { code: "approval_expired" });
}

/** Longest time that a preview may delay a call. */
const MAX_PREVIEW_MS = 1_000;

/** Returns what a call would change in files, redacted; undefined when that is unknown or takes too long. */
async function previewOf(
  tool: Tool,
  call: ToolCall,
  { cwd, files, signal, clock }: Pick<ToolCallScope, "cwd" | "files" | "signal" | "clock">,
): Promise<FileChange[] | undefined> {
  if (!tool.preview) return undefined;
  const { promise: late, resolve } = Promise.withResolvers<undefined>();
  const cancel = clock.after(MAX_PREVIEW_MS, () => resolve(undefined));
  try {
    const context = { cwd, signal, ...(files ? { files } : {}) };
    const changes = await Promise.race([tool.preview(call.input as never, context), late]);
    return changes && changes.length > 0 ? shownChanges(changes) : undefined;
  } catch {
    // The call itself reports the problem.
    return undefined;
  } finally {
    cancel();
  }
}
