import type { ClarifyQuestion } from "../../../generated/http/client/types.gen.ts";
import { isRecord } from "../../base/data.ts";
import { ToolError, type Questions } from "../tool/tool.ts";

/** A server's question during a call (MCP, elicitation/create). */
interface Elicitation {
  readonly message: string;
  /** A flat object schema. */
  readonly requestedSchema: unknown;
}

interface ElicitationAnswer {
  readonly action: "accept" | "decline" | "cancel";
  readonly content?: Record<string, unknown>;
}

const MAX_FIELDS = 8;
const MAX_CHOICES = 12;

/** Asks people through the running call. Cancels without a call; declines when the question is not answered. */
export async function elicit(
  { message, requestedSchema }: Elicitation,
  questions: Questions | undefined,
): Promise<ElicitationAnswer> {
  if (!questions) return { action: "cancel" };
  const fields = fieldsOf(requestedSchema);
  if (fields.length > MAX_FIELDS) return { action: "decline" };
  try {
    const clarifyQuestions =
      fields.length === 0 ? [consent(message)] : fields.map((field) => toQuestion(field, message));
    const answers = await questions.clarify(clarifyQuestions);
    if (fields.length === 0) return { action: answers["consent"] === "Yes" ? "accept" : "decline" };
    return toAnswer(fields, answers);
  } catch (error) {
    if (error instanceof ToolError) return { action: "decline" };
    throw error;
  }
}

interface Field {
  readonly name: string;
  readonly schema: Readonly<Record<string, unknown>>;
  readonly isRequired: boolean;
}

function fieldsOf(schema: unknown): readonly Field[] {
  if (!isRecord(schema) || !isRecord(schema["properties"])) return [];
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  return Object.entries(schema["properties"]).map(([name, each]) => ({
    name,
    schema: isRecord(each) ? each : {},
    isRequired: required.includes(name),
  }));
}

function consent(message: string): ClarifyQuestion {
  return { id: "consent", question: message.slice(0, 2_000), choices: ["Yes", "No"], multi_select: false };
}

function toQuestion({ name, schema, isRequired }: Field, message: string): ClarifyQuestion {
  const about = [schema["title"], schema["description"]]
    .filter((part) => typeof part === "string")
    .join(": ");
  const need = isRequired ? "" : " (optional)";
  return {
    id: name,
    question: `${message.slice(0, 2_000)}\n${about === "" ? name : about.slice(0, 500)}${need}`,
    choices: choicesOf(schema),
    multi_select: false,
  };
}

function choicesOf({ type, enum: choices }: Readonly<Record<string, unknown>>): string[] | null {
  if (type === "boolean") return ["yes", "no"];
  return Array.isArray(choices) && choices.length <= MAX_CHOICES ? choices.map(String) : null;
}

/** Converts the answers to the schema's types; declines when a required one is missing or invalid. */
function toAnswer(fields: readonly Field[], answers: Readonly<Record<string, string>>): ElicitationAnswer {
  const content: Record<string, unknown> = {};
  for (const { name, schema, isRequired } of fields) {
    const value = valueOf(schema, answers[name] ?? "");
    if (value !== undefined) content[name] = value;
    else if (isRequired) return { action: "decline" };
  }
  return { action: "accept", content };
}

function valueOf({ type, enum: choices }: Readonly<Record<string, unknown>>, text: string): unknown {
  if (text === "") return undefined;
  if (type === "boolean") return /^(?:yes|true|1)$/i.test(text.trim());
  if (type === "number" || type === "integer") {
    const value = Number(text);
    return Number.isNaN(value) || (type === "integer" && !Number.isInteger(value)) ? undefined : value;
  }
  return Array.isArray(choices) && !choices.includes(text) ? undefined : text;
}
