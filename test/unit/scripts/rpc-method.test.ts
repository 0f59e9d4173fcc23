import assert from "node:assert/strict";
import { test } from "node:test";
import type { BundledDocument } from "../../../scripts/lib/document.ts";
import { emitRpc } from "../../../scripts/lib/emit-rpc.ts";
import { checkRpcRules, collectRpcSchemas } from "../../../scripts/lib/rpc-method.ts";
import { projectRpc } from "../../../scripts/lib/rpc-projection.ts";

const text = { type: "string" };

function openRpc(methods: readonly object[], schemas: object = {}): BundledDocument {
  const named = methods.map((method) => ({ paramStructure: "by-name", params: [], ...method }));
  const document = {
    openrpc: "1.4.0",
    info: { title: "t", version: "0" },
    methods: named,
    components: { schemas },
  };
  return document as unknown as BundledDocument;
}

function result(title: string | undefined, schema: object = text): object {
  return { name: "r", schema: title === undefined ? schema : { title, ...schema } };
}

test("parameters travel by name", () => {
  assert.deepEqual(checkRpcRules(openRpc([{ name: "a.b", paramStructure: "either" }])), [
    "a.b: paramStructure must be by-name",
  ]);
});

test("required parameters come first", () => {
  const params = [
    { name: "maybe", schema: text },
    { name: "must", required: true, schema: text },
  ];
  assert.deepEqual(checkRpcRules(openRpc([{ name: "a.b", params }])), [
    "a.b: the required parameter must must come before the optional ones",
  ]);
});

test("an inline result has a title", () => {
  assert.deepEqual(checkRpcRules(openRpc([{ name: "a.b", result: result(undefined) }])), [
    "a.b: an inline result schema needs a title; it names the type",
  ]);
});

test("a result is not called as generators call its method", () => {
  const problem = "a.b: the result is called AB, which generators call the method: call it ABResult";
  assert.deepEqual(checkRpcRules(openRpc([{ name: "a.b", result: result("AB") }])), [problem]);
  const named = { name: "r", schema: { $ref: "#/components/schemas/AB" } };
  assert.deepEqual(checkRpcRules(openRpc([{ name: "a.b", result: named }], { AB: text })), [problem]);
  assert.deepEqual(checkRpcRules(openRpc([{ name: "a.b", result: result("ABResult") }])), []);
});

test("error codes keep out of JSON-RPC's own range", () => {
  const errors = [-32769, -32768, -32000, -31999, 4001].map((code) => ({ code, message: "no" }));
  assert.deepEqual(checkRpcRules(openRpc([{ name: "a.b", errors }])), [
    "a.b: error code -32768 is reserved by JSON-RPC; use one outside -32768..-32000",
    "a.b: error code -32000 is reserved by JSON-RPC; use one outside -32768..-32000",
  ]);
});

test("a method's name is used once", () => {
  assert.deepEqual(checkRpcRules(openRpc([{ name: "a.b" }, { name: "a.b" }])), ["a.b: the name is taken"]);
});

test("one name for two schemas is refused, the same schema twice is not", () => {
  const [one, two] = [
    openRpc([{ name: "a", result: result("Same") }]),
    openRpc([], { Same: { title: "Same", ...text } }),
  ];
  assert.deepEqual(Object.keys(collectRpcSchemas([one, two])), ["AParams", "Same"]);
  const other = openRpc([], { Same: { type: "integer" } });
  assert.throws(
    () => collectRpcSchemas([one, other]),
    /schema Same: two different schemas bear this name: rename one/,
  );
});

test("a notification is not a request", () => {
  const printed = emitRpc(openRpc([{ name: "a.note" }, { name: "a.ask", result: result("Answer") }]), {
    types: "./t.ts",
    contract: "./c.ts",
  });
  assert.ok(printed.includes('"a.ask": {') && !printed.includes("a.note"));
});

test("shown as OpenAPI, what the host sends is the request, from either side", () => {
  const methods = [{ name: "a.b", result: result("Answer") }];
  const request = (side: "gateway" | "host") => {
    const { paths } = projectRpc(openRpc(methods), side) as unknown as {
      paths: Record<string, { post: { requestBody: { content: Record<string, { schema: unknown }> } } }>;
    };
    return paths["/a.b"]!.post.requestBody.content["application/json"]!.schema;
  };
  assert.deepEqual(request("gateway"), { $ref: "#/components/schemas/ABParams" });
  assert.deepEqual(request("host"), { $ref: "#/components/schemas/Answer" });
});
