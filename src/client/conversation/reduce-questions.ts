/** Questions of the agent. Pure. */
import { cleanHead, cleanLine } from "./clean-text.ts";
import type { GatewayPayload } from "./gateway.ts";
import { markWaiting, notice } from "./items.ts";
import type { ApprovalChoice, ChatState, ClarifyBatch, ClarifyQuestion, Question } from "./state.ts";

const MAX_QUESTIONS = 64;
const MAX_TEXT = 8_000;
const MAX_DIFF = 20_000;
const MAX_CHOICES = 50;
/** A choice is the exact answer, so it is not shortened further. */
const MAX_CHOICE = 1_000;
const MAX_PARTS = 50;

type QuestionEvent = {
  readonly [K in Question["kind"]]: readonly [kind: K, payload: GatewayPayload<`${K}.request`>];
}[Question["kind"]];

/** Adds a question of the gateway. A repeated question with several parts keeps its current part. */
export function addQuestion(state: ChatState, ...event: QuestionEvent): ChatState {
  const question = questionOf(event);
  const isBegun = state.questions.some(
    (known) => known.id !== question.id && requestIdOf(known) === question.id,
  );
  return isBegun ? state : putQuestion(state, question);
}

/** Adds a question, or replaces a repeated one. */
export function putQuestion(state: ChatState, question: Question): ChatState {
  const index = state.questions.findIndex((known) => requestIdOf(known) === requestIdOf(question));
  const questions =
    index >= 0 ? state.questions.with(index, question) : [...state.questions, question].slice(-MAX_QUESTIONS);
  return markWaiting({ ...state, questions });
}

/** Removes a question by its id or its request's id. */
export function removeQuestion(state: ChatState, id: string): ChatState {
  const rest = state.questions.filter((question) => question.id !== id && requestIdOf(question) !== id);
  return rest.length === state.questions.length ? state : markWaiting({ ...state, questions: rest });
}

/** Returns the next part of a question with several parts; undefined after the last. */
export function nextPart(question: ClarifyQuestion, answer: string): ClarifyQuestion | undefined {
  const { batch } = question;
  const part = batch?.parts[batch.at + 1];
  if (!batch || !part) return undefined;
  const at = batch.at + 1;
  const { id: _, ...shown } = part;
  const id = `${batch.requestId}#${at}`;
  return { ...question, ...shown, id, batch: { ...batch, at, given: givenWith(batch, answer) } };
}

/** Returns all answers of a request with several questions, by question id; undefined for a single question. */
export function answersOf(
  { batch }: ClarifyQuestion,
  last: string,
): Readonly<Record<string, string>> | undefined {
  return batch && givenWith(batch, last);
}

function givenWith({ parts, at, given }: ClarifyBatch, answer: string): Readonly<Record<string, string>> {
  return { ...given, [parts[at]?.id ?? ""]: answer };
}

/** Returns the gateway's id of a question. */
export function requestIdOf(question: Question): string {
  return (question.kind === "clarify" ? question.batch?.requestId : undefined) ?? question.id;
}

/** Removes a question that is no longer open, with a notice that says why. */
export function cancelQuestion(state: ChatState, payload: GatewayPayload<"request.cancel">): ChatState {
  const { id, method, reason, resolution } = payload;
  const next = removeQuestion(state, id);
  if (next === state) return state;
  if (reason === "timeout")
    return notice(next, "warning", `The ${NAME[method]} expired without an answer and was refused.`);
  if (reason !== "resolved") return next;
  const how = resolution === undefined ? "" : `: ${cleanLine(resolution, 80)}`;
  return notice(next, "info", `The ${NAME[method]} was answered elsewhere${how}.`);
}

/** The choices that this version can show; a newer gateway may offer more. */
const CHOICES: ReadonlySet<string> = new Set<ApprovalChoice>(["once", "session", "always", "deny"]);

const NAME = {
  approval: "approval",
  clarify: "question",
  sudo: "request for a password",
  secret: "request for a secret",
} as const;

function partOf(event: {
  readonly question: string;
  readonly choices: readonly string[] | null;
  readonly multi_select?: boolean;
}): Pick<ClarifyQuestion, "question" | "choices" | "isMultiSelect"> {
  return {
    question: cleanHead(event.question, MAX_TEXT),
    choices: (event.choices ?? []).slice(0, MAX_CHOICES).map((choice) => cleanLine(choice, MAX_CHOICE)),
    isMultiSelect: event.multi_select === true,
  };
}

function questionOf(event: QuestionEvent): Question {
  const [kind, { request_id: id, expires_at: expires, tool_id: toolId }] = event;
  const base = {
    id,
    ...(expires === null ? {} : { expiresAtMs: expires * 1_000 }),
    ...(toolId === undefined ? {} : { toolId }),
  };
  switch (event[0]) {
    case "approval": {
      const { command, description, choices, tool_name: tool, inline_diff: diff } = event[1];
      return {
        ...base,
        kind: "approval",
        command: cleanHead(command, MAX_TEXT),
        description: cleanHead(description, MAX_TEXT),
        choices: [...choices.filter((choice) => CHOICES.has(choice) && choice !== "deny"), "deny"],
        ...(tool === undefined ? {} : { toolName: cleanLine(tool, 80) }),
        ...(diff === undefined ? {} : { diff: cleanHead(diff, MAX_DIFF) }),
      };
    }
    case "clarify": {
      const { questions = [], ...only } = event[1];
      const parts = questions.slice(0, MAX_PARTS).map((each) => ({ id: each.id, ...partOf(each) }));
      const { id: _, ...first } = parts[0] ?? { id, ...partOf(only) };
      const batch = { requestId: id, parts, at: 0, given: {} };
      return { ...base, kind: "clarify", ...first, ...(parts.length > 1 ? { batch } : {}) };
    }
    case "sudo":
      return { ...base, kind: "sudo", command: cleanHead(event[1].command, MAX_TEXT) };
    case "secret":
      return {
        ...base,
        kind: "secret",
        prompt: cleanHead(event[1].prompt, MAX_TEXT),
        envVar: cleanLine(event[1].env_var, 80),
      };
    default:
      throw new TypeError(`unknown question kind: ${String(kind)}`);
  }
}
