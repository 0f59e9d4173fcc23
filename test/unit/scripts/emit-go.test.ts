import assert from "node:assert/strict";
import { test } from "node:test";
import { readMethods } from "../../../scripts/lib/client-method.ts";
import { SpecError, type BundledDocument } from "../../../scripts/lib/document.ts";
import { printGoMethods } from "../../../scripts/lib/go/client.ts";
import { GoTypes } from "../../../scripts/lib/go/types.ts";
import { readOperations } from "../../../scripts/lib/operation.ts";

const json = (schema: object) => ({ "application/json": { schema } });

/** A document with one operation and the given schemas. */
function documentOf(operation: object, schemas: object = {}): BundledDocument {
  const responses = { "200": { description: "ok", content: json({ type: "object" }) } };
  const paths = {
    "/v1/things/{thing_id}": { patch: { operationId: "updateThing", responses, ...operation } },
  };
  const parameters = [{ name: "thing_id", in: "path", required: true, schema: { type: "string" } }];
  Object.assign(paths["/v1/things/{thing_id}"], { parameters });
  return { openapi: "3.1.1", info: { title: "t", version: "1" }, paths, components: { schemas } } as never;
}

function print(document: BundledDocument): string {
  const types = new GoTypes(document, { prefix: "", taken: [] });
  const methods = printGoMethods(readMethods(document, readOperations(document), types), types);
  return `${types.print()}\n${methods}`;
}

function assertHas(source: string, ...parts: readonly string[]): void {
  for (const part of parts) assert.ok(source.includes(part), `missing:\n${part}\nin:\n${source}`);
}

test("a patch can leave a member out, set it to null, or set it", () => {
  const body = {
    type: "object",
    required: ["name"],
    properties: {
      name: { type: "string" },
      note: { type: ["string", "null"] },
      limit: { type: "integer" },
      tags: { type: ["array", "null"], items: { type: "string" } },
      kind: { type: "string", const: "patch" },
    },
  };
  const source = print(documentOf({ requestBody: { required: true, content: json(body) } }));
  assertHas(
    source,
    'Name  string             `json:"name"`',
    'Note  Nullable[string]   `json:"note,omitempty"`',
    'Limit *int64             `json:"limit,omitempty"`',
    'Tags  Nullable[[]string] `json:"tags,omitempty"`',
    "func (c *Client) UpdateThing(ctx context.Context, thingID string, body *UpdateThingBody, options ...RequestOption) (map[string]any, error) {",
    'newRequest("PATCH", "application/json", "/v1/things/", segment(thingID))',
  );
});

test("an operation that answers with JSON or a stream has a method for each, and an endless stream resumes", () => {
  const parameters = [{ name: "Last-Event-ID", in: "header", schema: { type: "string" } }];
  const document = documentOf({}, { Change: { type: "object", properties: { id: { type: "string" } } } });
  const operation = {
    operationId: "streamEvents",
    "x-sse": { data: "Change", id: "id", event: "type", terminator: "none" },
    parameters,
    responses: { "200": { description: "ok", content: json({ type: "object" }) } },
  };
  Object.assign(document["paths"] as object, { "/v1/events": { get: operation } });
  assertHas(
    print(document),
    "func (c *Client) ListEvents(ctx context.Context, options ...RequestOption) (map[string]any, error) {",
    "func (c *Client) StreamEvents(ctx context.Context, params StreamEventsParams, options ...RequestOption) *Stream[Change] {",
    'var streamEventsStream = streamKind{endless: true, cursorHeader: "last-event-id"}',
  );
});

test("an alias of another operation has no method", () => {
  assert.doesNotMatch(print(documentOf({ "x-alias": "other" })), /UpdateThing/);
});

test("a union without a tag is read by the members that its branches require", () => {
  const branch = (name: string) => ({
    type: "object",
    required: [name],
    properties: { [name]: { type: "string" } },
  });
  const source = print(
    documentOf({}, { A: branch("a"), B: branch("b"), Either: { oneOf: [ref("A"), ref("B")] } }),
  );
  assertHas(source, 'case wire.Has(data, "a"):\n\t\tv.Value = new(A)', "func (*B) isEither() {}");
});

const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });
const alike = { type: "object", required: ["a"], properties: { a: { type: "string" } } };

for (const [what, schemas] of Object.entries<object>({
  "a union of objects that nothing distinguishes": { A: alike, B: alike, U: { oneOf: [ref("A"), ref("B")] } },
  "the keyword not": { A: { not: { type: "string" } } },
  "the keyword prefixItems": { A: { type: "array", prefixItems: [{ type: "string" }] } },
  "the keyword patternProperties": { A: { type: "object", patternProperties: { "^x": { type: "string" } } } },
  "a list that contains itself": { A: { type: "array", items: ref("A") } },
  "a constant that is a list": { A: { type: "object", properties: { a: { const: [1] } } } },
})) {
  test(`codegen fails on ${what}, and says where`, () => {
    assert.throws(
      () => print(documentOf({}, schemas)),
      (error) => error instanceof SpecError && /teach scripts\/lib\/go/.test(error.message),
    );
  });
}
