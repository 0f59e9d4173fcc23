import type { ToolSpec } from "../agent/engine.ts";
import { formatIssue, SchemaSet } from "../base/json/validate.ts";

const schemas = new SchemaSet({});

/** Undefined when `input` fits the tool's schema, else a sentence that the model can act on. */
export function checkToolInput(tool: ToolSpec, input: unknown): string | undefined {
  const issue = schemas.check(tool.parameters, input)?.[0];
  return issue && `The arguments of ${tool.name} are not valid: ${formatIssue(issue, "the whole")}.`;
}
