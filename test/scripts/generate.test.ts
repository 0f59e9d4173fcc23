import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { tmpdir } from "node:os";
import { findDrift } from "../../scripts/lib/drift.ts";
import { hashTree } from "../../scripts/lib/files.ts";
import { generate } from "../../scripts/lib/generate.ts";
import { copySpecs, edit, fixtureSpecs, makeFolder, run } from "../unit/scripts/fixtures.ts";

let folder = "";
let out = "";

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "agentd-generate-"));
  out = join(folder, "generated");
  await generate({ specsFolder: fixtureSpecs, outFolder: out });
});
after(() => rm(folder, { recursive: true, force: true }));

type Tables = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** One table of a generated file. */
async function load(file: string, table: string): Promise<Tables> {
  const module = (await import(join(out, file))) as Readonly<Record<string, Tables>>;
  return module[table]!;
}

/** The value at a path of plain data. */
function at(value: unknown, ...path: string[]): unknown {
  return path.reduce((parent, key) => (parent as Tables)[key], value);
}

test("every kind of spec gives its bundle, types and tables", async () => {
  const files = [...(await hashTree(out)).keys()].filter((file) => !/^(http\/client|sdk)\//.test(file));
  assert.deepEqual(files, [
    "config/schema.gen.ts",
    "config/types.gen.ts",
    "gateway/contract.gen.ts",
    "gateway/host.gen.ts",
    "gateway/rpc.gen.ts",
    "gateway/schemas.gen.ts",
    "gateway/types/types.gen.ts",
    "http/contract.gen.ts",
    "http/schemas.gen.ts",
    "http/server.gen.ts",
    "reference/README.md",
    "reference/config.md",
    "reference/docs.gen.ts",
    "reference/gateway.md",
    "reference/host.md",
    "reference/http.md",
    "reference/webhook.md",
    "specs/config.schema.json",
    "specs/gateway.openrpc.json",
    "specs/host.openrpc.json",
    "specs/http.openapi.json",
    "specs/webhook.openapi.json",
    "webhook/schemas.gen.ts",
    "webhook/server.gen.ts",
    "webhook/types/types.gen.ts",
  ]);
});

test("the same specs give the same bytes", async () => {
  const again = join(folder, "again");
  await generate({ specsFolder: fixtureSpecs, outFolder: again });
  assert.deepEqual(await findDrift(out, again), []);
});

test("the table of an operation says how its parameters are read and checked", async () => {
  const operations = await load("http/server.gen.ts", "operations");
  assert.deepEqual(operations["getThing"], {
    method: "GET",
    route: "/things/{thing_id}",
    tags: ["Things"],
    security: [{ bearerAuth: [] }],
    scope: "read",
    path: {
      coerce: { thing_id: "string" },
      defaults: {},
      schema: { type: "object", required: ["thing_id"], properties: { thing_id: { type: "string" } } },
    },
    query: {
      coerce: { limit: "integer", tag: "integer[]", deep: "boolean" },
      defaults: { limit: 20 },
      schema: {
        type: "object",
        required: [],
        properties: {
          limit: { $ref: "#/components/schemas/Limit" },
          tag: { type: "array", items: { type: "integer" } },
          deep: { type: ["boolean", "null"] },
        },
      },
    },
    headers: {
      coerce: { "x-trace": "string" },
      defaults: { "x-trace": "none" },
      schema: { type: "object", required: ["x-trace"], properties: { "x-trace": { type: "string" } } },
    },
    responses: {
      "200": { json: { $ref: "#/components/schemas/Thing" }, headers: ["etag", "x-age"] },
      "404": { json: { $ref: "#/components/schemas/Problem" }, headers: [] },
      default: { json: { $ref: "#/components/schemas/Problem" }, headers: [] },
    },
  });
});

test("the tables describe streams, raw bodies, other media types and open operations", async () => {
  const operations = await load("http/server.gen.ts", "operations");
  assert.deepEqual(at(operations, "createThing", "sse"), { id: "seq", terminator: "[DONE]" });
  assert.deepEqual(at(operations, "createThing", "responses", "200"), {
    json: { $ref: "#/components/schemas/Thing" },
    sse: { $ref: "#/components/schemas/ThingEvent" },
    headers: [],
  });
  assert.deepEqual(at(operations, "receiveHook", "body"), { required: true, raw: true });
  assert.deepEqual(at(operations, "receiveHook", "responses", "200"), { raw: "text/plain", headers: [] });
  assert.deepEqual(at(operations, "deleteThing", "security"), []);
});

test("validators get schemas without annotations; the configuration keeps them", async () => {
  const schemas = await load("http/schemas.gen.ts", "schemas");
  assert.deepEqual(Object.keys(schemas["Thing"]!), ["type", "required", "properties"]);
  assert.deepEqual(schemas["Limit"], { type: "integer", maximum: 100 });
  assert.ok(!("discriminator" in schemas["ThingEvent"]!));
  const configSchema = await load("config/schema.gen.ts", "configSchema");
  assert.deepEqual(at(configSchema, "$defs", "Server", "properties", "port"), {
    type: "integer",
    default: 8642,
    maximum: 65535,
    description: "Where it listens.",
  });
});

test("the bundled configuration schema stands alone", async () => {
  const text = await readFile(join(out, "specs/config.schema.json"), "utf8");
  const schema: unknown = JSON.parse(text);
  assert.equal(at(schema, "$schema"), "https://json-schema.org/draft/2020-12/schema");
  assert.deepEqual(Object.keys(at(schema, "$defs") as object), ["Route", "Server"]);
  assert.deepEqual(at(schema, "$defs", "Server", "properties", "self"), { $ref: "#" });
  assert.ok(!text.includes("components/schemas"));
});

test("a method's table names its parameters, defaults, errors and scope", async () => {
  const gatewayRequests = await load("gateway/rpc.gen.ts", "gatewayRequests");
  assert.deepEqual(gatewayRequests["thing.list"], {
    params: { $ref: "#/components/schemas/ThingListParams" },
    names: ["owner", "limit"],
    defaults: { limit: 20 },
    result: { $ref: "#/components/schemas/ThingListResult" },
    errors: [4001],
    scope: "read",
  });
  const schemas = await load("gateway/schemas.gen.ts", "schemas");
  assert.deepEqual(schemas["ThingListParams"], {
    type: "object",
    required: ["owner"],
    properties: { owner: { type: "string" }, limit: { type: "integer" } },
  });
});

test("generated code says what made it and imports nothing from outside", async () => {
  const files = [...(await hashTree(out)).keys()].filter((name) => name.endsWith(".ts"));
  assert.ok(files.length > 0);
  for (const file of files) {
    const text = await readFile(join(out, file), "utf8");
    assert.match(text.split("\n")[0]!, /generated/i, file);
    for (const [, from] of text.matchAll(/ from ['"]([^'"]+)['"]/g)) {
      const target = resolve(join(out, file, ".."), from!);
      assert.ok(from!.startsWith(".") && target.startsWith(out), `${file} imports ${from}`);
    }
  }
});

const PROOF = `
import type { OperationId, Operations } from "./generated/http/server.gen.ts";
import type { GatewayRequests } from "./generated/gateway/rpc.gen.ts";
import type { Config } from "./generated/config/types.gen.ts";
import type { SchemaTypes } from "./generated/http/schemas.gen.ts";

type Response<K extends OperationId> = Operations[K]["response"];
export const bodies = (request: Operations["getThing"]["request"]) => {
  const limit: number = request.query.limit;
  const trace: string = request.headers["x-trace"];
  // @ts-expect-error no default, so it may be absent
  const tag: number[] = request.query.tag;
  return [limit, trace, tag];
};
export const good: Response<"getThing"> = { status: 200, headers: { etag: "1" }, body: { id: "1", name: "a" } };
export const byDefault: Response<"getThing"> = { status: 503, body: { message: "no" } };
// @ts-expect-error a required response header is missing
export const noHeader: Response<"getThing"> = { status: 200, body: { id: "1", name: "a" } };
// @ts-expect-error default stands for errors only
export const notAnError: Response<"getThing"> = { status: 201, body: { message: "no" } };
// @ts-expect-error no default response here
export const undeclared: Response<"createThing"> = { status: 503, body: { message: "no" } };
// @ts-expect-error a media type the spec does not list
export const wrongMedia: Response<"receiveHook"> = { status: 200, raw: "", contentType: "text/html" };
export const raw: Uint8Array = {} as Operations["receiveHook"]["request"]["rawBody"];
export const config = (value: Config): number => value.server.port + (value.routes["a"]?.rate ?? 0);
// @ts-expect-error no default, so it may be absent
export const note = (value: Config): string => value.note;
export const params = (value: GatewayRequests["thing.list"]["params"]): number => value.limit;
export const thing: SchemaTypes["Thing"] = { id: "1", name: "a", children: [] };
export const error: GatewayRequests["thing.list"]["error"] = 4001;
`;

test("the generated types compile strictly and refuse what the spec does not say", async () => {
  const strict = {
    strict: true,
    noUncheckedIndexedAccess: true,
    noUnusedLocals: true,
    noUnusedParameters: true,
  };
  await writeFile(join(folder, "proof.ts"), PROOF);
  await writeFile(
    join(folder, "tsconfig.json"),
    JSON.stringify({
      compilerOptions: {
        ...strict,
        target: "es2024",
        lib: ["es2024", "dom", "dom.iterable", "dom.asynciterable"],
        module: "nodenext",
        types: [],
        noEmit: true,
        erasableSyntaxOnly: true,
        verbatimModuleSyntax: true,
        isolatedModules: true,
        allowImportingTsExtensions: true,
      },
      include: ["proof.ts", "generated"],
    }),
  );
  await writeFile(join(folder, "package.json"), '{"type":"module"}');
  const { status, output } = await run("node_modules/@typescript/native/bin/tsc", ["-p", folder]);
  assert.equal(output, "");
  assert.equal(status, 0);
});

test("every missing spec is named", async (context) => {
  const empty = await makeFolder(context);
  await assert.rejects(generate({ specsFolder: empty, outFolder: join(empty, "out") }), (error: Error) => {
    const lines = ["http.openapi.yaml", "gateway.openrpc.yaml", "config.schema.yaml"];
    assert.equal(error.message, lines.map((name) => `${join(empty, name)} is missing`).join("\n"));
    return error.name === "SpecError";
  });
});

test("a reference that leads nowhere is reported with its file", async (context) => {
  const specsFolder = await copySpecs(context);
  await edit(join(specsFolder, "http.openapi.yaml"), "$defs/ThingEvent", "$defs/Nothing");
  await assert.rejects(
    generate({ specsFolder, outFolder: join(specsFolder, "out") }),
    /http\.openapi\.yaml cannot be bundled:[^]*Nothing/,
  );
});

test("broken rules of several specs are reported together", async (context) => {
  const specsFolder = await copySpecs(context);
  await edit(join(specsFolder, "http.openapi.yaml"), "operationId: getThing", "operationId: get_thing");
  await edit(join(specsFolder, "gateway.openrpc.yaml"), "paramStructure: by-name", "paramStructure: either");
  await assert.rejects(generate({ specsFolder, outFolder: join(specsFolder, "out") }), (error: Error) => {
    assert.match(
      error.message,
      /^http\.openapi\.yaml: GET \/things\/\{thing_id\}: operationId "get_thing" must be camelCase/m,
    );
    assert.match(error.message, /^gateway\.openrpc\.yaml: thing\.list: paramStructure must be by-name$/m);
    return true;
  });
});

test("a schema that contains itself may be a method's result", async () => {
  const schemas = await load("gateway/schemas.gen.ts", "schemas");
  assert.deepEqual(at(schemas, "Thing", "properties", "children"), {
    type: "array",
    items: { $ref: "#/components/schemas/Thing" },
  });
});
