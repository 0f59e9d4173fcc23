import type { StopResult, AskChoice } from "../../../generated/http/client/types.gen.ts";
import { isFinalStatus, type RunView } from "../../agent/run/run.ts";
import { ServiceError } from "../../base/errors.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import { toApprovalRequest } from "../../agent/question/question.ts";
import type { QuestionRow } from "../../store/schema/tables.ts";

type SteerRequest = HttpRequest<"steerRun", HttpContext>;

/** POST /v1/runs/{run_id}/steer: stores the text before it answers. The model gets it at its next step. */
export async function steerRun(
  { path, body, ctx }: SteerRequest,
  deps: HttpDeps,
): Promise<HttpResponse<"steerRun">> {
  const owner = ctx.identity.owner;
  const run = await deps.agent.findRun(path.run_id, owner);
  const text = steerText(body, deps);
  if (run.status !== "running") throw notSteerable(run);
  if (!(await deps.runs.steer(run.id, text))) {
    throw notSteerable(await deps.agent.findRun(run.id, owner));
  }
  return { status: 200, body: { object: "agent.run.steer", run_id: run.id, accepted: true } };
}

/** POST /v1/runs/{run_id}/stop: requests the end, and returns the status so far. */
export async function stopRun(
  { path, body, ctx }: HttpRequest<"stopRun", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"stopRun">> {
  const { owner, name } = ctx.identity;
  let run = await deps.agent.findRun(path.run_id, owner);
  // Tries again for a run that leaves the queue at this moment: it was no longer queued and not yet running.
  for (let i = 0; i < ATTEMPTS && !isStopping(run); i++) {
    await deps.runs.stop(run.id, body?.reason ?? `stopped by http:${name}`, { by: name });
    run = await deps.agent.findRun(run.id, owner);
  }
  const status = isFinalStatus(run.status) ? (run.status as StopResult["status"]) : "stopping";
  return { status: 200, body: { object: "agent.run.stop", run_id: run.id, status } };
}

const ATTEMPTS = 3;

function isStopping({ status }: RunView): boolean {
  return status === "stopping" || isFinalStatus(status);
}

/** Returns the one text of the body, under any of its names. */
function steerText(body: SteerRequest["body"], { settings }: HttpDeps): string {
  const texts = Object.entries(body).filter(([, text]) => text !== undefined);
  const [first] = texts;
  if (!first || texts.length > 1) {
    throw new ServiceError("invalid_steer_input", "Send the text as exactly one of: input, message, text.", {
      param: texts[1]?.[0] ?? "input",
    });
  }
  const [param, text] = first;
  if (text.trim() === "") throw new ServiceError("invalid_steer_input", `${param} is empty.`, { param });
  const bytes = new TextEncoder().encode(text).length;
  if (bytes <= settings.maxTextBytes) return text;
  const what = `${param} has ${bytes} bytes; the limit is ${settings.maxTextBytes} (limits.max_text_bytes).`;
  throw new ServiceError("invalid_steer_input", what, { param });
}

function notSteerable({ id, status }: RunView): ServiceError {
  if (isFinalStatus(status)) {
    return new ServiceError("run_not_active", `The run ${id} has ended: ${status}. Start another one.`);
  }
  const what = `The run ${id} is ${status}. Only a running run takes steering. Try again when it runs.`;
  return new ServiceError("run_not_accepting_steer", what);
}

type ApprovalRequest = HttpRequest<"resolveRunApproval", HttpContext>;

/** POST /v1/runs/{run_id}/approval: the first valid answer wins, from any surface. */
export async function resolveRunApproval(
  request: ApprovalRequest,
  deps: HttpDeps,
): Promise<HttpResponse<"resolveRunApproval">> {
  const { path, body, ctx } = request;
  const run = await deps.agent.findRun(path.run_id, ctx.identity.owner);
  const choice = toChoice(body.choice);
  const candidates = await findQuestions(run.id, request, deps);
  const fitting = candidates.filter((each) => offered(each).includes(choice));
  if (fitting.length === 0) throw notOffered(choice, candidates);
  const answered: QuestionRow[] = [];
  for (const each of fitting) if (await answer(each, choice, request, deps)) answered.push(each);
  const [first] = answered;
  if (!first) throw closedAlready(fitting);
  return {
    status: 200,
    body: {
      object: "agent.run.approval_response",
      run_id: run.id,
      choice,
      request_id: answered.length === 1 ? first.id : null,
      resolved: answered.length,
    },
  };
}

const CHOICES: Readonly<Record<string, AskChoice>> = {
  once: "once",
  session: "session",
  always: "always",
  deny: "deny",
  approve: "once",
  approved: "once",
  allow: "once",
  reject: "deny",
  rejected: "deny",
  denied: "deny",
};

function toChoice(text: string | undefined): AskChoice {
  const allowed = Object.keys(CHOICES).join(", ");
  if (text === undefined) {
    throw new ServiceError("missing_required_parameter", `choice is required: one of ${allowed}.`, {
      param: "choice",
    });
  }
  const choice = Object.hasOwn(CHOICES, text) ? CHOICES[text] : undefined;
  if (choice) return choice;
  const what = `choice must be one of ${allowed}, not ${JSON.stringify(text.slice(0, 64))}.`;
  throw new ServiceError("invalid_approval_choice", what, { param: "choice" });
}

/** Returns the open approvals that the body addresses, oldest first. */
async function findQuestions(
  runId: string,
  { body }: ApprovalRequest,
  deps: HttpDeps,
): Promise<readonly QuestionRow[]> {
  const isForAll = body.all === true || body.resolve_all === true;
  if (body.request_id !== undefined) {
    if (isForAll) throw invalidRequest("Send either request_id or all, not both.");
    return [await findQuestion(runId, body.request_id, deps)];
  }
  const open = (await deps.questions.open({ runId })).filter(isApproval);
  const [oldest] = open;
  if (!oldest) {
    throw new ServiceError("approval_not_active", `No approval of the run ${runId} is open.`);
  }
  return isForAll ? open : [oldest];
}

async function findQuestion(runId: string, questionId: string, { store }: HttpDeps): Promise<QuestionRow> {
  const question = await store.find("questions", { id: questionId });
  if (question?.run_id !== runId || !isApproval(question)) {
    throw invalidRequest(
      `The run has no approval ${JSON.stringify(questionId)}. GET the run to list the open ones.`,
    );
  }
  if (question.status !== "open") throw closedAlready([question]);
  return question;
}

/** Returns false when another answer, or the deadline, came first. */
async function answer(
  question: QuestionRow,
  choice: AskChoice,
  { ctx, body }: ApprovalRequest,
  { questions }: HttpDeps,
): Promise<boolean> {
  const { name, owner } = ctx.identity;
  const reason = body.reason === undefined ? {} : { reason: body.reason };
  try {
    await questions.answer(question.id, { owner, by: `http:${name}`, choice, ...reason });
    return true;
  } catch (error) {
    const isLate = error instanceof ServiceError && ["ask_not_pending", "ask_not_found"].includes(error.code);
    if (isLate) return false;
    throw error;
  }
}

function isApproval(question: QuestionRow): boolean {
  return question.kind === "approval";
}

function offered(question: QuestionRow): readonly AskChoice[] {
  return toApprovalRequest(question).choices;
}

function notOffered(choice: AskChoice, candidates: readonly QuestionRow[]): ServiceError {
  const choices = [...new Set(candidates.flatMap(offered))].join(", ");
  const what = `${choice} is not offered here. Choose one of: ${choices}.`;
  return new ServiceError("invalid_approval_choice", what, { param: "choice" });
}

function closedAlready(questions: readonly QuestionRow[]): ServiceError {
  const ids = questions.map(({ id }) => id).join(", ");
  return new ServiceError(
    "approval_not_pending",
    `Already closed: ${ids}. GET the run to list the open ones.`,
  );
}

function invalidRequest(message: string): ServiceError {
  return new ServiceError("invalid_approval_request", message, { param: "request_id" });
}
