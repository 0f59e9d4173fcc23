import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { BundledDocument, Schemas } from "../../../scripts/lib/document.ts";
import { emitPython, writePython } from "../../../scripts/lib/emit-python.ts";
import { hashTree } from "../../../scripts/lib/files.ts";
import { bundleSpecs } from "../../../scripts/lib/bundle.ts";
import { snakeCase, takeName } from "../../../scripts/lib/python-text.ts";
import { fixtureSpecs, makeFolder } from "./fixtures.ts";

function documentOf(schemas: Schemas, paths: object = {}): BundledDocument {
  return { openapi: "3.1.1", info: { title: "Test", version: "1.2.3" }, paths, components: { schemas } };
}

const file = (name: string, document: BundledDocument) => emitPython(document)[`agentd_client/${name}`] ?? "";
const typesOf = (schemas: Schemas) => file("types.py", documentOf(schemas));
const string = { type: "string" };
const json = (schema: object) => ({ description: "x", content: { "application/json": { schema } } });
const events = (name: string) => ({
  description: "x",
  content: { "text/event-stream": { schema: { $ref: `#/components/schemas/${name}` } } },
});

/** The source of one method, from its `def` to the next. */
function method(source: string, name: string): string {
  const [, found] =
    new RegExp(`(    (?:async )?def ${name}\\([^]*?)(?=\\n    (?:async )?def |$)`).exec(source) ?? [];
  assert.ok(found !== undefined, `no method ${name} in\n${source}`);
  return found;
}

function assertHas(text: string, ...parts: readonly string[]): void {
  for (const part of parts) assert.ok(text.includes(part), `${part}\nis not in\n${text}`);
}

test("names become Python's: words, keywords, names that are taken", () => {
  assert.equal(snakeCase("createChatCompletion"), "create_chat_completion");
  assert.equal(snakeCase("getHealthV1"), "get_health_v1");
  assert.equal(snakeCase("Last-Event-ID"), "last_event_id");
  assert.equal(snakeCase("2fa"), "n2fa");
  const taken = new Set(["body"]);
  assert.equal(takeName("from", taken), "from_");
  assert.equal(takeName("body", taken), "body_");
  assert.equal(takeName("body", taken), "body__");
});

test("an object is a TypedDict; members that may be absent are in a class of their own", () => {
  const Run = {
    type: "object",
    description: "One piece of work.",
    required: ["id"],
    properties: { id: string, note: { type: ["string", "null"], description: "For people." } },
  };
  assertHas(
    typesOf({ Run }),
    "class _RunRequired(TypedDict):\n    id: str\n",
    'class Run(_RunRequired, total=False):\n    """One piece of work."""\n\n    #: For people.\n    note: str | None\n',
  );
  assertHas(typesOf({ Run: { ...Run, required: ["id", "note"] } }), "class Run(TypedDict):\n");
  assertHas(typesOf({ Run: { ...Run, required: [] } }), "class Run(TypedDict, total=False):\n");
  assertHas(
    typesOf({ Empty: { type: "object", additionalProperties: false } }),
    "class Empty(TypedDict):\n    pass\n",
  );
});

test("members that no class can have are written as a call", () => {
  const properties = { from: string, "x-y": { type: "integer" }, str: string, __secret: string };
  assertHas(
    typesOf({ Mail: { type: "object", required: ["from"], properties } }),
    '_MailRequired = TypedDict(\n    "_MailRequired",\n    {\n        "from": str,\n    },\n)',
    '_MailOptional = TypedDict(\n    "_MailOptional",\n    {\n        "x-y": int,\n        "str": str,\n        "__secret": str,\n    },\n    total=False,\n)',
    "class Mail(_MailRequired, _MailOptional):\n    pass\n",
  );
});

test("unions, enums, constants, null and references", () => {
  const text = typesOf({
    Status: { type: "string", enum: ["on", "off"] },
    Maybe: { oneOf: [{ $ref: "#/components/schemas/Status" }, { type: "null" }] },
    Mixed: {
      oneOf: [
        { type: "null" },
        { type: "array", items: { const: 1 } },
        { enum: ["a", "b", null] },
        { const: "c" },
      ],
    },
    Old: { type: "string", nullable: true },
    Pairs: { type: "object", additionalProperties: { type: "number" } },
    Open: { type: "object", additionalProperties: true },
    Anything: {},
  });
  assertHas(
    text,
    'Status: TypeAlias = Literal["on", "off"]\n',
    'Maybe: TypeAlias = Union["Status", None]\n',
    'Mixed: TypeAlias = Union[list[Literal[1]], Literal["a", "b", "c"], None]\n',
    "Old: TypeAlias = Union[str, None]\n",
    "Pairs: TypeAlias = dict[str, float]\n",
    "Open: TypeAlias = dict[str, Any]\n",
    "Anything: TypeAlias = Any\n",
  );
});

test("schemas that contain themselves, and inline objects, have names", () => {
  const text = typesOf({
    Tree: {
      type: "object",
      required: ["left", "part"],
      properties: {
        left: { oneOf: [{ $ref: "#/components/schemas/Tree" }, { type: "null" }] },
        part: { type: "object", required: ["a"], properties: { a: string } },
        parts: {
          type: "array",
          items: {
            oneOf: [
              { type: "object", required: ["kind"], properties: { kind: { const: "one" } } },
              { type: "object", required: ["kind"], properties: { kind: { const: "two" } } },
            ],
          },
        },
      },
    },
    Loop: { type: "array", items: { $ref: "#/components/schemas/Loop" } },
  });
  assertHas(
    text,
    "class TreePart(TypedDict):\n    a: str\n",
    "    left: Tree | None\n    part: TreePart\n",
    "    parts: list[TreePartsItemOne | TreePartsItemTwo]\n",
    'Loop: TypeAlias = list["Loop"]\n',
  );
});

test("allOf is one object of all its parts", () => {
  const Base = { type: "object", required: ["id"], properties: { id: string } };
  const More = {
    allOf: [
      { $ref: "#/components/schemas/Base" },
      { type: "object", required: ["n"], properties: { n: { type: "integer" } } },
    ],
  };
  assertHas(typesOf({ Base, More }), "class More(TypedDict):\n    id: str\n    n: int\n");
});

test("a name that types.py needs itself is given way to", () => {
  assertHas(typesOf({ Any: { type: "string" } }), "Any_: TypeAlias = str\n");
});

test("parameters are arguments: path first, then the body, the others by name", () => {
  const document = documentOf(
    { Thing: { type: "object", required: ["a"], properties: { a: string } } },
    {
      "/v1/{class}/{thing_id}": {
        parameters: [{ name: "class", in: "path", required: true, schema: string }],
        put: {
          operationId: "putThing",
          summary: "Put it",
          "x-required-scope": "write",
          parameters: [
            { name: "thing_id", in: "path", required: true, schema: { type: "integer" } },
            {
              name: "deep",
              in: "query",
              description: 'How "deep" \\ far.',
              schema: { type: ["boolean", "null"] },
            },
            { name: "must", in: "query", required: true, schema: { type: "array", items: string } },
            { name: "X-Agent-Model", in: "header", schema: string },
            { name: "timeout", in: "query", schema: { type: "number", default: 3 } },
          ],
          requestBody: {
            content: { "application/json": { schema: { $ref: "#/components/schemas/Thing" } } },
          },
          responses: { "200": json({ $ref: "#/components/schemas/Thing" }), "204": { description: "None." } },
        },
      },
    },
  );
  const source = method(file("client.py", document), "put_thing");
  assertHas(
    source,
    [
      "        class_: str,",
      "        thing_id: int,",
      "        body: types.Thing | None = None,",
      "        *,",
      "        must: list[str],",
      "        deep: bool | None = None,",
      "        timeout_: float | None = None,",
      "        agent_model: str | None = None,",
    ].join("\n"),
    ") -> types.Thing | None:",
    "`PUT /v1/{class}/{thing_id}`. Needs a key with the scope `write`.",
    '            deep: How "deep" \\\\ far.',
    "            timeout_: Default 3.",
    'f"/v1/{segment(class_)}/{segment(thing_id)}"',
    'query={"deep": deep, "must": must, "timeout": timeout_}',
    'headers={"x-agent-model": agent_model}',
    "body=ABSENT if body is None else body",
    'return cast("types.Thing | None", self._send(request))',
  );
  assertHas(
    method(file("aio.py", document), "put_thing"),
    "async def put_thing(",
    "await self._send(request)",
  );
});

test("an answer that is text is a str, another one bytes, none None", () => {
  const answer = (type: string, schema: object) => ({
    "200": { description: "x", content: { [type]: { schema } } },
  });
  const document = documentOf(
    {},
    {
      "/metrics": { get: { operationId: "getMetrics", responses: answer("text/plain", string) } },
      "/logo": { get: { operationId: "getLogo", responses: answer("image/png", {}) } },
      "/it": { delete: { operationId: "deleteIt", responses: { "204": { description: "Gone." } } } },
    },
  );
  const source = file("client.py", document);
  assertHas(
    method(source, "get_metrics"),
    "-> str:",
    'accept="text/plain"',
    'cast("str", self._send(request))',
  );
  assertHas(method(source, "get_logo"), "-> bytes:", 'accept="image/png"');
  assertHas(method(source, "delete_it"), "-> None:", 'accept=""', "        self._send(request)\n");
});

const streams = documentOf(
  {
    Ask: { type: "object", required: ["q"], properties: { q: string, stream: { type: "boolean" } } },
    Answer: { type: "object", required: ["a"], properties: { a: string } },
    Problem: { type: "object", required: ["error"], properties: { error: string } },
    Step: { type: "object", required: ["event"], properties: { event: { const: "step" } } },
    End: { type: "object", required: ["event"], "x-final": true, properties: { event: { const: "end" } } },
    Frame: { oneOf: [{ $ref: "#/components/schemas/Step" }, { $ref: "#/components/schemas/Problem" }] },
    Event: {
      oneOf: [{ $ref: "#/components/schemas/Step" }, { $ref: "#/components/schemas/End" }],
      discriminator: { propertyName: "event" },
    },
  },
  {
    "/answers": {
      post: {
        operationId: "createAnswer",
        "x-sse": { terminator: "[DONE]" },
        requestBody: {
          required: true,
          content: { "application/json": { schema: { $ref: "#/components/schemas/Ask" } } },
        },
        responses: {
          "200": {
            description: "x",
            content: { ...json({ $ref: "#/components/schemas/Answer" }).content, ...events("Frame").content },
          },
          "400": json({ $ref: "#/components/schemas/Problem" }),
        },
      },
    },
    "/answers/{id}": {
      get: {
        operationId: "getAnswer",
        "x-sse": { terminator: "[DONE]" },
        parameters: [
          { name: "id", in: "path", required: true, schema: string },
          { name: "stream", in: "query", schema: { type: "boolean" } },
          { name: "starting_after", in: "query", schema: { type: "integer" } },
        ],
        responses: {
          "200": {
            description: "x",
            content: { ...json({ $ref: "#/components/schemas/Answer" }).content, ...events("Event").content },
          },
        },
      },
    },
    "/runs/events": {
      get: {
        operationId: "streamRunEvents",
        "x-sse": { id: "seq", event: "event", terminator: "close" },
        parameters: [{ name: "Last-Event-ID", in: "header", schema: string }],
        responses: { "200": events("Event") },
      },
    },
  },
);

test("an operation that answers whole or as a stream has a method for each", () => {
  const source = file("client.py", streams);
  assertHas(method(source, "create_answer"), "-> types.Answer:", "body=unstreamed(body)");
  assertHas(
    method(source, "stream_answer"),
    "-> Stream[types.Step]:",
    'body={**body, "stream": True}',
    "never sent twice",
    "return Stream(self, request, _STREAM_ANSWER)",
  );
  assertHas(
    method(source, "follow_answer"),
    "starting_after: int | None",
    '"stream": True, "starting_after": starting_after',
  );
  assert.doesNotMatch(method(source, "get_answer"), /starting_after|"stream"/);
});

test("the spec defines how a stream ends and resumes; a stream that starts work never resumes", () => {
  const source = file("aio.py", streams);
  assertHas(
    source,
    '_STREAM_ANSWER = StreamKind(\n    terminator="[DONE]",\n)\n',
    '_FOLLOW_ANSWER = StreamKind(\n    terminator="[DONE]",\n    tag="event",\n    final=frozenset({"end"}),\n    cursor_query="starting_after",\n    cursor_member="sequence_number",\n)\n',
    '_STREAM_RUN_EVENTS = StreamKind(\n    tag="event",\n    final=frozenset({"end"}),\n    cursor_header="last-event-id",\n)\n',
  );
  assertHas(
    method(source, "stream_run_events"),
    "    def stream_run_events(",
    "-> AsyncStream[types.Event]:",
  );
});

test("the package of the fixture is whole, and the same again", async (context) => {
  const folder = await makeFolder(context);
  const bundles = await bundleSpecs(fixtureSpecs, join(folder, "specs"));
  await writePython(join(folder, "one"), bundles);
  await writePython(join(folder, "two"), bundles);
  const one = await hashTree(join(folder, "one"));
  assert.deepEqual(one, await hashTree(join(folder, "two")));
  const runtime = await readdir(join(import.meta.dirname, "../../../scripts/python"));
  const expected = [
    ...runtime.filter((name) => name.endsWith(".py")),
    "__init__.py",
    "_version.py",
    "aio.py",
    "client.py",
    "gateway.py",
    "gateway_types.py",
    "py.typed",
    "types.py",
  ];
  assert.deepEqual(
    [...one.keys()],
    ["README.md", ...expected.map((name) => `agentd_client/${name}`).toSorted(), "pyproject.toml"],
  );
});
