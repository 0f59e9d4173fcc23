/** Questions of the agent. Pure. */
import { cleanHead, cleanLine } from "./clean-text.ts";
import type { GatewayPayload } from "./gateway-types.ts";
import { notice } from "./items.ts";
import type { ChatState, Question } from "./state.ts";

const MAX_QUESTIONS = 64;
const MAX_TEXT = 8_000;
const MAX_CHOICES = 50;

type Asked = {
  readonly [K in Question["kind"]]: readonly [kind: K, payload: GatewayPayload<`${K}.request`>];
}[Question["kind"]];

/** Adds a question, or replaces it when it is told of again. */
export function ask(state: ChatState, ...asked: Asked): ChatState {
  const question = questionOf(asked);
  const index = state.questions.findIndex(({ id }) => id === question.id);
  if (index >= 0) return { ...state, questions: state.questions.with(index, question) };
  return { ...state, questions: [...state.questions, question].slice(-MAX_QUESTIONS) };
}

export function takeQuestion(state: ChatState, id: string): ChatState {
  if (!state.questions.some((question) => question.id === id)) return state;
  return { ...state, questions: state.questions.filter((question) => question.id !== id) };
}

/** The question is open no more; whoever still sees it is told why. */
export function cancelQuestion(state: ChatState, payload: GatewayPayload<"request.cancel">): ChatState {
  const { id, method, reason, resolution } = payload;
  const next = takeQuestion(state, id);
  if (next === state) return state;
  if (reason === "timeout")
    return notice(next, "warning", `Nobody answered in time: the ${NAME[method]} was refused.`);
  if (reason !== "resolved") return next;
  const how = resolution === undefined ? "" : `: ${cleanLine(resolution, 80)}`;
  return notice(next, "info", `The ${NAME[method]} was answered elsewhere${how}.`);
}

const NAME = {
  approval: "approval",
  clarify: "question",
  sudo: "request for a password",
  secret: "request for a secret",
} as const;

function questionOf(asked: Asked): Question {
  const [kind, { request_id: id, expires_at: expires }] = asked;
  const facts = { id, ...(expires === null ? {} : { expiresAtMs: expires * 1_000 }) };
  switch (asked[0]) {
    case "approval": {
      const { command, description, choices, tool_name: tool } = asked[1];
      return {
        ...facts,
        kind: "approval",
        command: cleanHead(command, MAX_TEXT),
        description: cleanHead(description, MAX_TEXT),
        choices: choices.includes("deny") ? choices : [...choices, "deny"],
        ...(tool === undefined ? {} : { toolName: cleanLine(tool, 80) }),
      };
    }
    case "clarify": {
      const { choices, multi_select: isMultiSelect = false, questions = [] } = asked[1];
      // Several at once are answered in one text: choices of one of them would be no answer to the others.
      const isOne = questions.length <= 1;
      const question = isOne ? asked[1].question : questions.map((each) => each.question).join("\n");
      return {
        ...facts,
        kind: "clarify",
        question: cleanHead(question, MAX_TEXT),
        choices: isOne ? (choices ?? []).slice(0, MAX_CHOICES).map((choice) => cleanLine(choice)) : [],
        isMultiSelect: isMultiSelect || questions[0]?.multi_select === true,
      };
    }
    case "sudo":
      return { ...facts, kind: "sudo", command: cleanHead(asked[1].command, MAX_TEXT) };
    case "secret":
      return {
        ...facts,
        kind: "secret",
        prompt: cleanHead(asked[1].prompt, MAX_TEXT),
        envVar: cleanLine(asked[1].env_var, 80),
      };
    default:
      throw new TypeError(`no such question: ${String(kind)}`);
  }
}
