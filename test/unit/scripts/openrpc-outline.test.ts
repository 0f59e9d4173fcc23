import assert from "node:assert/strict";
import { test } from "node:test";
import type { BundledDocument } from "../../../scripts/lib/document.ts";
import { outlineOf, restoreReferences } from "../../../scripts/lib/openrpc-outline.ts";
import { component } from "../../../scripts/openrpc-component.ts";

const reference = (name: string) => ({ $ref: `#/components/schemas/${name}` });

const bundle = {
  openrpc: "1.4.0",
  info: { title: "t", version: "1.2.3" },
  methods: [
    {
      name: "tree.get",
      paramStructure: "by-name",
      params: [{ name: "limit", schema: reference("Limit") }],
      result: { name: "tree", schema: reference("Tree") },
      errors: [{ code: 4001, message: "No such tree" }],
    },
  ],
  components: {
    schemas: {
      Limit: { type: ["integer", "null"], default: 20 },
      Tree: { type: "object", properties: { trees: { type: "array", items: reference("Tree") } } },
    },
  },
} as unknown as BundledDocument;

/** What the generator does to a document: every reference in a method becomes the component that it points to. */
function handOver({ methods, ...rest }: BundledDocument): BundledDocument {
  const { schemas = {} } = rest.components ?? {};
  const text = JSON.stringify(methods).replaceAll(
    /\{"\$ref":"#\/components\/schemas\/(\w+)"\}/g,
    (_whole, name: string) => JSON.stringify(schemas[name]),
  );
  return { ...rest, methods: JSON.parse(text) as unknown };
}

test("components of an outline contain no references, so that a recursive schema ends", () => {
  const schemas = outlineOf(bundle).components?.schemas ?? {};
  assert.doesNotMatch(JSON.stringify(schemas), /\$ref/);
  assert.deepEqual(outlineOf(bundle)["methods"], bundle["methods"]);
});

test("a document that was handed over has the references of the bundle again", () => {
  const restored = restoreReferences(handOver(outlineOf(bundle)));
  assert.deepEqual(restored["methods"], bundle["methods"]);
  assert.deepEqual(restored.components?.schemas?.["Tree"], {
    title: "Tree",
    ...bundle.components?.schemas?.["Tree"],
  });
});

test("a component prints the document that it is given and nothing else", () => {
  const [template] = component("gateway").hooks.templateFiles.typescript;
  const text = template?.template({ openrpcDocument: handOver(outlineOf(bundle)) }) ?? "";
  assert.equal(template?.path, "rpc.gen.ts");
  assert.match(text, /"tree\.get": \{\n {4}readonly params: WithDefaults<T\.TreeGetParams, "limit">;/);
  assert.match(text, /readonly result: T\.Tree;\n {4}readonly error: 4001;/);
  assert.match(text, /defaults: \{ limit: 20 \}/);
});
