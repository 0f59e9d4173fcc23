/** Examples: a value that fits a schema, and the command that sends it. */
import {
  dereference,
  isObject,
  listAt,
  objectAt,
  stringAt,
  type BundledDocument,
  type JsonObject,
  type Schema,
} from "./document.ts";
import type { Operation } from "./operation.ts";

/** How deep a made-up value goes; a schema that contains itself would never end. */
const MAX_DEPTH = 8;
/** The variable that examples take the key from. */
const KEY_VARIABLE = "API_SERVER_KEY";

/** The example of a media type: the one the spec gives, else the least that its schema accepts. */
export function exampleOf(document: BundledDocument, media: JsonObject): unknown {
  if (media["example"] !== undefined) return media["example"];
  const named = Object.values(objectAt(media, "examples")).map((each) => dereference(document, each));
  if (named[0]?.["value"] !== undefined) return named[0]["value"];
  return makeValue(document, objectAt(media, "schema"), { name: "", depth: 0 });
}

/** Whether the spec itself gives an example of the media type. */
export function hasExample(media: JsonObject): boolean {
  return media["example"] !== undefined || media["examples"] !== undefined;
}

/** The operation as a command line. `body` is its example body, undefined when it has none. */
export function curlExample(document: BundledDocument, operation: Operation, body: unknown): string {
  const streams = operation.responses.some(
    ({ media }) => media.every(({ type }) => type === "text/event-stream") && media.length > 0,
  );
  const flags = [
    ...(streams ? ["-N"] : []),
    ...(operation.method === "GET" ? [] : [`-X ${operation.method}`]),
  ];
  const lines = [
    [
      "curl",
      ...flags,
      quoteUrl(`${serverOf(document)}${fillRoute(operation.route)}${queryOf(document, operation)}`),
    ].join(" "),
    ...(operation.security.length === 0 ? [] : [`-H "Authorization: Bearer $${KEY_VARIABLE}"`]),
    ...requiredOf(operation, "headers").map(({ name }) => `-H "${name}: $${variable(name)}"`),
    ...(body === undefined
      ? []
      : [
          `-H "Content-Type: application/json"`,
          `-d '${JSON.stringify(body, null, 2).replaceAll("'", `'\\''`)}'`,
        ]),
  ];
  return lines.join(" \\\n  ");
}

function requiredOf(operation: Operation, field: "query" | "headers") {
  const group = operation.groups.find((each) => each.field === field);
  return (group?.parameters ?? []).filter(({ required }) => required);
}

function queryOf(document: BundledDocument, operation: Operation): string {
  const pairs = requiredOf(operation, "query").map(({ name, schema }) => {
    const value = makeValue(document, schema, { name, depth: 0 });
    return `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`;
  });
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}

function serverOf(document: BundledDocument): string {
  const [server] = listAt(document, "servers");
  return (isObject(server) ? stringAt(server, "url") : undefined)?.replace(/\/$/, "") ?? "";
}

/** `/v1/runs/{run_id}` as a shell fills it in: `/v1/runs/$RUN_ID`. */
function fillRoute(route: string): string {
  return route.replaceAll(/\{([^}]+)\}/g, (_, name: string) => `$${variable(name)}`);
}

function quoteUrl(url: string): string {
  return /[$?&]/.test(url) ? `"${url}"` : url;
}

function variable(name: string): string {
  return name.toUpperCase().replaceAll(/\W/g, "_");
}

interface Spot {
  /** Name of the field, for a string that nothing else is known of. */
  readonly name: string;
  readonly depth: number;
}

function makeValue(document: BundledDocument, given: unknown, spot: Spot): unknown {
  const schema = dereference(document, given);
  const [shown] = listAt(schema, "examples");
  for (const value of [
    schema["example"],
    shown,
    schema["default"],
    schema["const"],
    listAt(schema, "enum")[0],
  ]) {
    if (value !== undefined) return value;
  }
  if (spot.depth > MAX_DEPTH) return null;
  const deeper = { ...spot, depth: spot.depth + 1 };
  const variants = [...listAt(schema, "oneOf"), ...listAt(schema, "anyOf")];
  if (variants.length > 0) {
    // Fields beside the alternatives hold for each of them.
    const { oneOf: _oneOf, anyOf: _anyOf, ...rest } = schema;
    const chosen = makeValue(document, variants[0], deeper);
    return isObject(chosen) ? { ...makeObject(document, rest, deeper), ...chosen } : chosen;
  }
  return makePlain(document, schema, spot);
}

function makePlain(document: BundledDocument, schema: Schema, { name, depth }: Spot): unknown {
  const declared = schema["type"];
  const type: unknown = Array.isArray(declared) ? declared[0] : (declared ?? "object");
  if (type === "object") return makeObject(document, schema, { name, depth: depth + 1 });
  if (type === "array") {
    const item = schema["items"];
    const isEmpty =
      !isObject(item) || (typeof schema["minItems"] === "number" ? schema["minItems"] < 1 : depth > 2);
    return isEmpty ? [] : [makeValue(document, item, { name, depth: depth + 1 })];
  }
  if (type === "integer" || type === "number") return schema["minimum"] ?? schema["exclusiveMinimum"] ?? 0;
  if (type === "boolean") return true;
  if (type === "null") return null;
  return stringFor(name);
}

function makeObject(document: BundledDocument, schema: Schema, spot: Spot): JsonObject {
  const merged = listAt(schema, "allOf").map((part) => makeValue(document, part, spot));
  const properties = objectAt(schema, "properties");
  const own = listAt(schema, "required").map((name) => [
    name,
    makeValue(document, properties[String(name)], { name: String(name), depth: spot.depth }),
  ]);
  return Object.assign({}, ...merged, Object.fromEntries(own)) as JsonObject;
}

function stringFor(name: string): string {
  if (/^(content|input|text|message|prompt)$/.test(name)) return "Hello";
  if (/(^|_)id$/.test(name)) return `${name.replace(/_?id$/, "") || "item"}_1`;
  return name === "" ? "text" : name;
}
