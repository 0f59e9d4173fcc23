/** Requests made from the spec: right ones, and ones that are wrong in one place. For property tests. */
import fc, { type Arbitrary } from "fast-check";
import type { ParameterGroup } from "../../generated/http/contract.gen.ts";
import type { JsonSchema } from "../../src/base/schema.ts";
import { specSchemas } from "../../src/http/edge/input.ts";
import { fitting, spoil, type Tastes } from "./arbitrary.ts";
import type { NamedOperation } from "./scenario.ts";

export interface Request {
  readonly path: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** Things that exist, so that requests get further than the first look-up. */
export interface Known {
  readonly run: string;
  readonly response: string;
  readonly session: string;
}

const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
// Nothing here leaves this machine: addresses are none, or ones that are refused.
const address = fc.constantFrom(
  `data:image/png;base64,${PNG}`,
  "data:,",
  "data:image/png;base64,%%%",
  "http://127.0.0.1:1/x.png",
  "not an address",
  "",
);
const kind = fc.constantFrom(
  ..."text input_text output_text image_url input_image file input_file".split(" "),
);

const part = fc.record(
  {
    type: kind,
    text: fc.string(),
    image_url: fc.oneof(address, fc.record({ url: address }), fc.constant(null)),
    file: fc.record({ file_data: address, filename: fc.string() }, { requiredKeys: [] }),
    file_data: address,
    filename: fc.string(),
  },
  { requiredKeys: ["type"] },
);

const words = fc.string({ minLength: 1, maxLength: 20, unit: "grapheme" });
const content = fc.oneof(
  { weight: 3, arbitrary: words },
  { weight: 1, arbitrary: fc.array(part, { minLength: 1, maxLength: 3 }) },
);
const message = fc.record({ role: fc.constantFrom("user", "assistant", "system", "developer"), content });
const question = fc.record({ role: fc.constant("user"), content: words });
const item = fc.oneof(
  { weight: 3, arbitrary: message },
  fc.record({ type: fc.constant("message"), role: fc.constant("user"), content }),
  fc.record({ type: fc.constant("function_call_output"), call_id: words, output: content }),
  fc.record({
    type: fc.constantFrom("function_call", "reasoning", "item_reference", "mcp_call", "other"),
    id: words,
    call_id: words,
    name: words,
    arguments: words,
  }),
);
const conversation = (piece: Arbitrary<unknown>) =>
  fc.tuple(fc.array(piece, { maxLength: 3 }), question).map(([before, last]) => [...before, last]);
/** Called by the model wherever it is offered. */
export const CLIENT_TOOL = "look_up";
const signature = { name: fc.constant(CLIENT_TOOL), description: words };
const tool = { type: fc.constant("function") };
const tools = fc.oneof(
  fc.record({ ...tool, ...signature }).map((flat) => [flat]),
  fc.record({ ...tool, function: fc.record(signature) }).map((nested) => [nested]),
);

function tastesFor(known: Known): Tastes {
  return {
    ContentPart: part,
    InputItem: item,
    Webhook: fc.record({
      url: fc.constantFrom("http://127.0.0.1/x", "nowhere"),
      secret: fc.constantFrom("s".repeat(16), "whsec_%%%%%%%%%%"),
    }),
    messages: conversation(message),
    input: fc.oneof({ weight: 2, arbitrary: words }, { weight: 1, arbitrary: conversation(item) }),
    content,
    tools,
    tool_choice: fc.constantFrom("auto", "none", null),
    response_format: fc.constantFrom({ type: "text" }, null),
    text: fc.constantFrom<unknown>({ format: { type: "text" } }, "some text"),
    model: fc.constantFrom("agentd", "demo:demo", "demo", "gpt-none"),
    previous_response_id: fc.constantFrom(known.response, known.response, "resp_none", null),
    conversation: fc.constantFrom("one", { id: "two" }, null),
    toolsets: fc.constantFrom(["files"], [], ["nothing"]),
    session_id: fc.constantFrom("s1", "s2", known.session),
    session_key: fc.constantFrom("k1", "k2"),
    choice: fc.constantFrom("once", "approve", "denied", "perhaps"),
    after: fc.constantFrom(known.run, "1"),
    n: fc.constantFrom(1, null),
  };
}

/** Values that travel in headers: ones that are right, and ones that break a rule that the spec says in words. */
const goodHeaders: Readonly<Record<string, Arbitrary<string>>> = {
  "x-agent-owner": fc.constantFrom("ann", "bob", "*"),
  "x-agent-session-id": fc.constantFrom("s1", "s2"),
  "x-agent-session-key": fc.constantFrom("k1", "k 2"),
  "x-agent-model": fc.constantFrom("demo:demo", "demo"),
  "x-agent-progress": fc.constantFrom("1", "0", "yes"),
  "idempotency-key": fc.string({ minLength: 1, maxLength: 4, unit: fc.constantFrom(..."abc123-_~") }),
  "last-event-id": fc.constantFrom("0", "1"),
};
const badHeaders: Readonly<Record<string, Arbitrary<string>>> = {
  "x-agent-owner": fc.constantFrom("x".repeat(65), "a*b"),
  "x-agent-session-id": fc.constantFrom("a/b", "..", "x".repeat(257)),
  "x-agent-session-key": fc.constant("x".repeat(257)),
  "x-agent-model": fc.constantFrom("nobody:none", "two words"),
  "idempotency-key": fc.constantFrom("two words", "x".repeat(256)),
  "last-event-id": fc.constantFrom("999999", "-1", "x", "1.5"),
};

function headersFor({ headers }: NamedOperation): Arbitrary<Record<string, string>> {
  const names = Object.keys(headers?.coerce ?? {});
  const some = (max: number) => fc.subarray(names, { maxLength: Math.min(max, names.length) });
  const from = (table: typeof goodHeaders) => (chosen: readonly string[]) =>
    fc.record(Object.fromEntries(chosen.map((name) => [name, table[name] ?? words.map(encodeURIComponent)])));
  return fc.oneof(
    { weight: 3, arbitrary: fc.constant({}) },
    { weight: 3, arbitrary: some(2).chain(from(goodHeaders)) },
    { weight: 1, arbitrary: some(9).chain(from(goodHeaders)) },
    { weight: 1, arbitrary: some(1).chain(from(badHeaders)) },
  );
}

const idsOf = (known: Known): Readonly<Record<string, string>> => ({
  run_id: known.run,
  response_id: known.response,
  model: "agentd",
  session_id: known.session,
});

export function requestFor(operation: NamedOperation, known: Known): Arbitrary<Request> {
  const { path, query, body } = operation;
  const ids = idsOf(known);
  const odd = fc.constantFrom(
    "x",
    "run_none",
    "%00",
    "\u0000",
    "a b",
    "a/b",
    "\u{1f600}",
    "'; drop table runs; --",
  );
  const paths = Object.keys(path?.coerce ?? {}).map((name) => {
    const right = fc.constant(ids[name] ?? "x");
    return [name, fc.oneof({ weight: 5, arbitrary: right }, { weight: 1, arbitrary: odd })] as const;
  });
  return fc.record({
    path: fc.record(Object.fromEntries(paths)),
    query: query ? (fitting(query.schema, tastesFor(known)) as Arbitrary<Request["query"]>) : fc.constant({}),
    headers: headersFor(operation),
    body: body && !body.raw ? bodyFor(operation.id, body.schema, known) : fc.constant(undefined),
  });
}

/** What the schema leaves open and the operation as good as needs. */
const USUAL: Readonly<Record<string, object>> = {
  createChatCompletion: { messages: [{ role: "user", content: "hi" }] },
  createRun: { input: "hi" },
  createResponse: { input: "hi" },
  resolveRunApproval: { choice: "once" },
  steerRun: { input: "go on" },
};

function bodyFor(id: string, schema: JsonSchema, known: Known): Arbitrary<unknown> {
  const body = fitting(schema, tastesFor(known));
  const usual = USUAL[id];
  if (usual === undefined) return body;
  const whole = body.map((some) => ({ ...usual, ...(some as object) }));
  return fc.oneof({ weight: 4, arbitrary: whole }, { weight: 1, arbitrary: body });
}

export interface WrongRequest {
  readonly what: string;
  readonly request: Request;
}

/** One thing wrong with query, body or headers; undefined when there is nothing that could be. */
export function wrongRequestFor(
  operation: NamedOperation,
  known: Known,
): Arbitrary<WrongRequest | undefined> {
  const { query, body } = operation;
  const right = requestFor(operation, known).map((request) => ({ ...request, headers: {} }));
  return fc
    .tuple(right, wrongHeader(operation, known), fc.nat(), fc.nat({ max: 2 }))
    .map(([request, inHeader, dice, first]) => {
      const inQuery = () => {
        const way = query && spoil(query.schema, request.query, { dice, survives: survives(query) });
        return way && { what: way.what, request: { ...request, query: way.value as Request["query"] } };
      };
      const inBody = () => {
        const way = body && !body.raw ? spoil(body.schema, request.body, { dice }) : undefined;
        return way && { what: way.what, request: { ...request, body: way.value } };
      };
      const ways = [inQuery, inBody, () => inHeader];
      return [...ways.slice(first), ...ways.slice(0, first)].reduce<WrongRequest | undefined>(
        (found, make) => found ?? make(),
        undefined,
      );
    });
}

/** The plainest request that the operation accepts, but for one header. */
function wrongHeader(operation: NamedOperation, known: Known): Arbitrary<WrongRequest | undefined> {
  const bad = Object.entries(badHeaders).filter(([name]) => operation.headers?.coerce[name] !== undefined);
  const request = { path: idsOf(known), query: {}, body: operation.body ? USUAL[operation.id] : undefined };
  const ways = bad.map(([name, values]) =>
    values.map((value) => ({
      what: `${name} is ${value.slice(0, 20)}`,
      request: { ...request, headers: { [name]: value } },
    })),
  );
  return ways.length === 0 ? fc.constant(undefined) : fc.oneof(...ways);
}

/** Whether a wrong query is still wrong after it became text and was read again. */
function survives(query: ParameterGroup): (value: unknown) => boolean {
  return (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
    const members = Object.entries(value).filter(([name]) => query.coerce[name] !== undefined);
    const read = members.map(([name, item]) => [name, asRead(query.coerce[name], String(item))]);
    return specSchemas.check(query.schema, Object.fromEntries(read)) !== undefined;
  };
}

function asRead(coercion: string | undefined, text: string): unknown {
  if (coercion?.endsWith("[]")) return text.split(",").map((item) => asRead(coercion.slice(0, -2), item));
  if (coercion === "string") return text;
  if (coercion === "boolean") return text === "true" ? true : text === "false" ? false : text;
  return text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}
