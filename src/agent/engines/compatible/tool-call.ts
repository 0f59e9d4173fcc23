import type { LanguageModelV4ToolCall } from "@ai-sdk/provider";
import type { ToolSpec } from "../../engine.ts";
import type { ModelCallRequest } from "../model-request.ts";
import type { StepPart } from "../step.ts";

export type CallParser = (call: LanguageModelV4ToolCall) => StepPart;

/** Returns what parses the arguments of calls. A call of an unknown tool or with bad arguments becomes an invalid one. */
export function callParser({ tools, checkInput }: ModelCallRequest): CallParser {
  return ({ toolCallId, toolName, input: text, providerMetadata }) => {
    const tool = tools.find(({ name }) => name === toolName);
    const { value, problem } = parseInput(text);
    const error = tool ? (problem ?? findIssue(checkInput, tool, value)) : unavailable(toolName, tools);
    return {
      type: "tool-call",
      toolCallId,
      toolName,
      // What is shown of a call that is not made is what the model wrote.
      input: error !== undefined && text.trim() === "" ? text : value,
      ...(error === undefined ? {} : { invalid: true, error }),
      ...(providerMetadata === undefined ? {} : { providerMetadata }),
    };
  };
}

function findIssue(check: ModelCallRequest["checkInput"], tool: ToolSpec, value: unknown): Error | undefined {
  const issue = check(tool, value);
  return issue === undefined ? undefined : new Error(issue);
}

function unavailable(name: string, tools: readonly ToolSpec[]): Error {
  const names = tools.map((tool) => tool.name).join(", ");
  return new Error(`Model tried to call unavailable tool '${name}'. Available tools: ${names}.`);
}

/** Returns the arguments of a call. Arguments that are not JSON stay text; many models send none as "". */
function parseInput(text: string): { readonly value: unknown; readonly problem?: Error } {
  if (text.trim() === "") return { value: {} };
  try {
    const value: unknown = JSON.parse(text);
    if (SUSPECT.test(text) && changesPrototype(value)) throw new SyntaxError("a key changes a prototype");
    return { value };
  } catch (error) {
    return { value: text, problem: error as SyntaxError };
  }
}

/** Only texts with one of these, or with escaped letters, can have such a key. */
const SUSPECT = /__proto__|constructor|\\u/;

/** Returns whether the value has a key that changes the prototype of an object that it is copied to. */
function changesPrototype(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (Object.hasOwn(value, "__proto__")) return true;
  const made: unknown = Object.hasOwn(value, "constructor")
    ? (value as { constructor: unknown }).constructor
    : undefined;
  if (typeof made === "object" && made !== null && Object.hasOwn(made, "prototype")) return true;
  return Object.values(value).some(changesPrototype);
}
