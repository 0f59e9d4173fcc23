import assert from "node:assert/strict";
import { test } from "node:test";
import type { BundledDocument, Schema } from "../../../scripts/lib/document.ts";
import { emitHost } from "../../../scripts/lib/emit-host.ts";

const imports = { types: "./types.ts", contract: "./contract.ts" };
const reference = (name: string) => ({ $ref: `#/components/schemas/${name}` });

function event(type: string | undefined, payload: object): Schema {
  const tag = type === undefined ? { type: "string" } : { const: type };
  return { type: "object", description: "It came.", properties: { type: tag, payload } };
}

function host(schemas: Record<string, Schema>, branches: readonly object[]): BundledDocument {
  const methods = [
    {
      name: "event",
      summary: "Something happened",
      params: [{ name: "type", required: true, schema: { type: "string" } }],
    },
    {
      name: "ask.me",
      params: [{ name: "why", schema: { type: "string", default: "so" } }],
      result: { name: "r", schema: { title: "Answer", type: "object" } },
    },
  ];
  return {
    openrpc: "1.4.0",
    info: { title: "t", version: "0" },
    methods,
    components: { schemas: { ...schemas, GatewayEvent: { oneOf: branches } } },
  } as unknown as BundledDocument;
}

test("requests, notifications and events of the host are printed apart", () => {
  const text = emitHost(
    host({ Came: event("thing.came", reference("Thing")) }, [reference("Came")]),
    imports,
  );
  assert.match(text, /import type \{ EventMeta, RequestMeta, WithDefaults \} from "\.\/contract\.ts";/);
  assert.match(
    text,
    /interface HostRequests \{\n {2}"ask\.me": \{\n {4}readonly params: WithDefaults<T\.AskMeParams/,
  );
  assert.match(
    text,
    /interface HostNotifications \{\n {2}\/\*\* Something happened \*\/\n {2}event: T\.EventParams;\n\}/,
  );
  assert.match(
    text,
    /interface GatewayEvents \{\n {2}\/\*\* It came\. \*\/\n {2}"thing\.came": T\.Came;\n\}/,
  );
  assert.match(
    text,
    /"thing\.came": \{ event: \{ \$ref: "#\/components\/schemas\/Came" \}, payload: \{ \$ref: "#\/components\/schemas\/Thing" \} \},/,
  );
});

test("a host without events has an empty table", () => {
  assert.match(emitHost(host({}, []), imports), /gatewayEvents: [^\n]+ = \{\n\};/);
});

test("an event without a type or a named payload of its own is refused, all of them at once", () => {
  const schemas = {
    Typeless: event(undefined, reference("Thing")),
    Nameless: event("thing.went", { type: "object" }),
  };
  const branches = [reference("Typeless"), reference("Nameless"), { type: "object" }];
  assert.throws(() => emitHost(host(schemas, branches), imports), {
    name: "SpecError",
    message: [
      "Typeless: an event needs a type that is a const",
      "Nameless: the payload must be a reference to a schema",
      "GatewayEvent: every branch must be a reference to a schema",
    ].join("\n"),
  });
});
