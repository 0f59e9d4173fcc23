/** Values as they are typed on the command line. Pure. */
import { parseDocument } from "yaml";
import { ServiceError } from "../../base/errors.ts";
import type { JsonSchema } from "../../base/json/schema.ts";

/**
 * `text` in the terms of `schema`: for keys that hold text it is that text, unless it is in quotes; for others it is
 * a YAML scalar or JSON. ServiceError `invalid_config` when it is neither.
 */
export function parseEditValue(text: string, schema: JsonSchema, key: string): unknown {
  if (schema["type"] === "string" && !isQuoted(text)) return text;
  const document = parseDocument(text, { prettyErrors: false });
  const [problem] = document.errors;
  if (problem) {
    throw new ServiceError(
      "invalid_config",
      `The value for ${key} is neither a YAML scalar nor JSON: ${problem.message}. Lists are written [a, b].`,
      { param: key },
    );
  }
  return document.toJS() as unknown;
}

function isQuoted(text: string): boolean {
  return /^(["']).*\1$/s.test(text) && text.length > 1;
}
