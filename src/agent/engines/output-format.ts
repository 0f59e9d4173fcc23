/** JSON as the answer of a turn: what the model is asked for, what is shown of it, and what it must correct. */
import { SchemaSet, formatIssue } from "../../base/schema.ts";
import { addUsage, zeroUsage } from "../usage/usage.ts";
import type { EngineEvent, Message, OutputFormat } from "../engine.ts";
import type { Step } from "./turn.ts";

/** Model calls after the first that may correct one answer. */
const MAX_REPAIRS = 2;

/** How one model call asks for the format. */
export interface FormatRequest {
  /** Whether the provider gets the format as a parameter. */
  readonly isGiven: boolean;
  /** Whether the instructions of the model describe it. */
  readonly isDescribed: boolean;
}

/** Returns the instructions for an answer in the format. */
export function describeFormat({ schema, name, description }: OutputFormat): string {
  const rule = "no text before or after it, no code fence";
  if (!schema) return `When you answer the user, answer with one JSON object and nothing else: ${rule}.`;
  const title = [name, description].filter((text) => text !== undefined).join(": ");
  return [
    `When you answer the user, answer with one JSON value and nothing else: ${rule}.`,
    `It must fit this JSON Schema${title === "" ? "" : ` (${title})`}:`,
    JSON.stringify(schema),
  ].join("\n");
}

/** Returns why `text` does not have the format, in a clause without the text itself; undefined when it has it. */
function findProblem({ schema }: OutputFormat, text: string): string | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return "it is not JSON";
  }
  const issues = schemas.check(schema ?? ANY_OBJECT, value, text.length);
  return issues?.map((issue) => formatIssue(issue, "the answer")).join("; ");
}

const schemas = new SchemaSet({});
const ANY_OBJECT = { type: "object" };

/** Returns the text without the code fence that models put around JSON. */
function withoutFence(text: string): string {
  return /^\s*```(?:json)?[ \t]*\n([\s\S]*?)\n?[ \t]*```\s*$/.exec(text)?.[1] ?? text;
}

interface HeldMessage {
  readonly id: string;
  text: string;
  isShown: boolean;
}

/**
 * Holds back the text of an answer until it is known to have the format. If the provider got the schema and the text
 * starts like JSON, it is shown as it arrives.
 */
export class AnswerGate {
  readonly #emit: (event: EngineEvent) => void;
  #isLive = false;
  #hasShown = false;
  #message: HeldMessage | undefined;

  constructor(emit: (event: EngineEvent) => void) {
    this.#emit = emit;
  }

  /** True once a part of the answer was shown: it cannot be corrected. */
  get hasShown(): boolean {
    return this.#hasShown;
  }

  /** Starts the next answer, and drops the text that was held back. */
  open({ isLive }: { readonly isLive: boolean }): void {
    this.#isLive = isLive;
    this.#hasShown = false;
    this.#message = undefined;
  }

  take(event: EngineEvent): void {
    if (event.type === "message.start") {
      this.#message = { id: event.messageId, text: "", isShown: false };
    } else if (event.type === "message.delta" && this.#message) {
      this.#delta(this.#message, event.text);
    } else if (event.type !== "message.end" || this.#message?.isShown !== false) {
      this.#emit(event);
    }
  }

  #delta(message: HeldMessage, text: string): void {
    message.text += text;
    const { id: messageId, isShown } = message;
    if (isShown) return this.#emit({ type: "message.delta", messageId, text });
    if (!this.#isLive || !/^\s*[{[]/.test(message.text)) return;
    message.isShown = this.#hasShown = true;
    this.#emit({ type: "message.start", messageId });
    this.#emit({ type: "message.delta", messageId, text: message.text });
  }

  /** Shows `text` as the whole answer, unless it was shown as it came. */
  show(text: string): void {
    if (this.#hasShown || !this.#message || text === "") return;
    const { id: messageId } = this.#message;
    this.#hasShown = true;
    this.#emit({ type: "message.start", messageId });
    this.#emit({ type: "message.delta", messageId, text });
    this.#emit({ type: "message.end", messageId, text });
  }
}

export interface FormattedOptions {
  readonly format: OutputFormat;
  readonly gate: AnswerGate;
  /** Makes one answer. `corrections` follow the conversation, and are not saved. */
  readonly answer: (corrections: readonly Message[]) => Promise<Step>;
  /** Returns why no further call may be made. */
  readonly refusal: () => Step["error"];
  /** Names the model in an error. */
  readonly model: () => string;
}

/**
 * Makes a step whose answer has the format. Tool calls, cut answers and refusals count as steps unchanged; their text
 * is not shown as the answer. An answer without the format may be corrected twice, then the step fails.
 */
export async function formattedStep(options: FormattedOptions): Promise<Step> {
  const { format, gate } = options;
  const corrections: Message[] = [];
  let usage = zeroUsage;
  for (let repairs = 0; ; repairs++) {
    const answered = await options.answer(corrections);
    usage = addUsage(usage, answered.usage);
    const step: Step = { ...answered, usage };
    if (step.isCut || step.error || step.calls.length > 0 || step.stop === "refusal") return step;
    if (step.stop === "length") {
      gate.show(step.text);
      return step;
    }
    const text = withoutFence(step.text);
    const problem = findProblem(format, text);
    if (problem === undefined) {
      gate.show(text);
      return gate.hasShown && text === step.text ? step : withText(step, text);
    }
    const refusal = options.refusal();
    if (refusal) return { ...step, error: refusal };
    if (gate.hasShown || repairs === MAX_REPAIRS) return { ...step, error: wrongFormat(options, problem) };
    corrections.push(
      { role: "assistant", parts: [{ type: "text", text: step.text === "" ? "(no text)" : step.text }] },
      { role: "user", text: correction(problem) },
    );
  }
}

function withText(step: Step, text: string): Step {
  const at = step.parts.findIndex(({ type }) => type === "text");
  const parts = step.parts.map((part, index) => (index === at ? { ...part, text } : part));
  return { ...step, parts: parts.filter(({ type }, index) => type !== "text" || index === at), text };
}

function correction(problem: string): string {
  return `Your answer does not have the required format: ${problem}. Answer again with the corrected JSON and nothing else.`;
}

function wrongFormat({ model }: FormattedOptions, problem: string): NonNullable<Step["error"]> {
  return {
    code: "agent_incomplete",
    message: `The answer of ${model()} does not have the requested format: ${problem}. Simplify the schema, or choose a model that supports structured output.`,
    failure: { kind: "provider", retryable: false },
  };
}
