/** Bodies of requests against the vendors' own descriptions, which stand outside the project. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type JsonSchema, type SchemaMap, formatIssue, SchemaSet } from "../../../src/base/schema.ts";
import { isRecord } from "../../../src/base/data.ts";

/** What does not fit, in words; undefined when all does. */
export type BodyCheck = (body: unknown) => string | undefined;

/** For `skip` of a test: false, or why it cannot run. */
export function lacksVendorSpec(file: string): string | false {
  const path = specPath(file);
  if (path === undefined) return "AGENTD_TEST_VENDOR_SPECS names no folder";
  return existsSync(path) ? false : `${file} is not in the folder of AGENTD_TEST_VENDOR_SPECS`;
}

/** The check of what is posted to `path` in `file`, OpenAPI 3 or Swagger 2. */
export function vendorBody(file: string, path: string): BodyCheck {
  const text = readFileSync(specPath(file) ?? file, "utf8");
  // Swagger 2 has its schemas elsewhere.
  const document: unknown = JSON.parse(text.replaceAll("#/definitions/", "#/components/schemas/"));
  const schemas = at(document, ["components", "schemas"]) ?? at(document, ["definitions"]) ?? {};
  const post = at(document, ["paths", path, "post"]);
  const schema = post && (bodyOf(post) ?? parameterOf(post) ?? fieldsOf(post));
  if (!schema) throw new TypeError(`${file} describes no body of POST ${path}`);
  const set = new SchemaSet(schemas as SchemaMap);
  return (body) =>
    set
      .check(schema, body)
      ?.map((issue) => formatIssue(issue))
      .join("; ");
}

function bodyOf(post: JsonSchema): JsonSchema | undefined {
  const content = Object.values(at(post, ["requestBody", "content"]) ?? {}).find(isRecord);
  return content && at(content, ["schema"]);
}

function parameterOf(post: JsonSchema): JsonSchema | undefined {
  const { parameters } = post;
  const body = Array.isArray(parameters)
    ? parameters.find((one) => isRecord(one) && one["in"] === "body")
    : undefined;
  return at(body, ["schema"]);
}

/** Of Swagger 2, which describes forms field by field; JSON has the same fields. */
function fieldsOf({ parameters }: JsonSchema): JsonSchema | undefined {
  const all = Array.isArray(parameters) ? parameters.filter(isRecord) : [];
  const fields = all.filter((one) => one["in"] === "formData");
  if (fields.length === 0) return undefined;
  return {
    type: "object",
    additionalProperties: false,
    required: fields.filter((one) => one["required"] === true).map((one) => String(one["name"])),
    properties: Object.fromEntries(fields.map((one) => [String(one["name"]), { type: one["type"] }])),
  };
}

function at(value: unknown, path: readonly string[]): JsonSchema | undefined {
  const found = path.reduce<unknown>((inner, key) => (isRecord(inner) ? inner[key] : undefined), value);
  return isRecord(found) ? found : undefined;
}

function specPath(file: string): string | undefined {
  const folder = process.env["AGENTD_TEST_VENDOR_SPECS"];
  return folder ? join(folder, file) : undefined;
}
