/** Reads the methods of a bundled OpenRPC document into the model that rules and emitters share. */
import {
  componentName,
  componentReference,
  componentSchemas,
  dereference,
  listAt,
  objectAt,
  SpecError,
  stringAt,
  type BundledDocument,
  type Schema,
  type Schemas,
} from "./document.ts";
import { pascalCase } from "./print.ts";

export interface RpcMethod {
  readonly name: string;
  readonly summary: string | undefined;
  readonly scope: string | undefined;
  readonly paramStructure: string | undefined;
  readonly params: readonly RpcParam[];
  /** The component of the parameters object. */
  readonly paramsName: string;
  /** Undefined for a notification. */
  readonly result: RpcResult | undefined;
  readonly errors: readonly number[];
}

export interface RpcParam {
  readonly name: string;
  readonly required: boolean;
  readonly schema: Schema;
  readonly default: unknown;
}

export interface RpcResult {
  /** The component of the result; "" for an inline schema without a title. */
  readonly name: string;
  readonly schema: Schema;
  readonly inline: boolean;
}

/** In the order of the document. */
export function readMethods(document: BundledDocument): readonly RpcMethod[] {
  return listAt(document, "methods").map((each) => {
    const method = dereference(document, each);
    const name = stringAt(method, "name") ?? "";
    return {
      name,
      summary: stringAt(method, "summary"),
      scope: stringAt(method, "x-required-scope"),
      paramStructure: stringAt(method, "paramStructure"),
      params: listAt(method, "params").map((param) => readParam(document, param)),
      paramsName: `${pascalCase(name)}Params`,
      result:
        method["result"] === undefined ? undefined : readResult(dereference(document, method["result"])),
      errors: listAt(method, "errors").flatMap((error) => {
        const code = dereference(document, error)["code"];
        return typeof code === "number" ? [code] : [];
      }),
    };
  });
}

/**
 * The components of all documents, with a parameters object for every method and the inline results beside them,
 * sorted by name. A name that means two different schemas is a SpecError.
 */
export function collectRpcSchemas(documents: readonly BundledDocument[]): Schemas {
  const collected = new Map<string, Schema>();
  for (const [name, schema] of documents.flatMap(namedSchemas)) {
    const seen = collected.get(name);
    if (seen !== undefined && JSON.stringify(seen) !== JSON.stringify(schema)) {
      throw new SpecError([`schema ${name}: two different schemas bear this name: rename one`]);
    }
    collected.set(name, schema);
  }
  return Object.fromEntries([...collected].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** Every broken rule of an OpenRPC document, beyond what its meta-schema asks. */
export function checkRpcRules(document: BundledDocument): readonly string[] {
  const methods = readMethods(document);
  return methods.flatMap((method, index) => [
    ...(methods.findIndex(({ name }) => name === method.name) === index
      ? []
      : [`${method.name}: the name is taken`]),
    ...checkMethod(method),
  ]);
}

function namedSchemas(document: BundledDocument): readonly (readonly [string, Schema])[] {
  const ofMethods = readMethods(document).flatMap(({ paramsName, params, result }) => {
    const row = [paramsName, paramsSchema(params)] as const;
    return result?.inline === true ? [row, [result.name, result.schema] as const] : [row];
  });
  return [...Object.entries(componentSchemas(document)), ...ofMethods];
}

/** Open: undeclared parameters are ignored and logged, not refused. */
function paramsSchema(params: readonly RpcParam[]): Schema {
  return {
    type: "object",
    required: params.filter(({ required }) => required).map(({ name }) => name),
    properties: Object.fromEntries(params.map(({ name, schema }) => [name, schema])),
  };
}

function readParam(document: BundledDocument, node: unknown): RpcParam {
  const param = dereference(document, node);
  const schema = objectAt(param, "schema");
  const summary = stringAt(param, "description") ?? stringAt(param, "summary");
  const described =
    summary === undefined || "description" in schema ? schema : { ...schema, description: summary };
  return {
    name: stringAt(param, "name") ?? "",
    required: param["required"] === true,
    schema: described,
    default: dereference(document, schema)["default"],
  };
}

function readResult(result: Schema): RpcResult {
  const schema = objectAt(result, "schema");
  const component = componentName(schema["$ref"]);
  if (component !== undefined)
    return { name: component, schema: componentReference(component), inline: false };
  return { name: stringAt(schema, "title") ?? "", schema, inline: true };
}

function checkMethod({ name, paramStructure, params, result, errors }: RpcMethod): readonly string[] {
  const problems: string[] = [];
  if (paramStructure !== "by-name") problems.push(`${name}: paramStructure must be by-name`);
  const optional = params.findIndex(({ required }) => !required);
  const late = params.findLastIndex(({ required }) => required);
  if (optional !== -1 && optional < late) {
    problems.push(`${name}: the required parameter ${params[late]?.name} must come before the optional ones`);
  }
  if (result?.name === "") problems.push(`${name}: an inline result schema needs a title; it names the type`);
  if (result?.name === pascalCase(name)) {
    problems.push(
      `${name}: the result is called ${result.name}, which generators call the method: call it ${result.name}Result`,
    );
  }
  const reserved = errors.filter((code) => code >= -32768 && code <= -32000);
  return [
    ...problems,
    ...reserved.map(
      (code) => `${name}: error code ${code} is reserved by JSON-RPC; use one outside -32768..-32000`,
    ),
  ];
}
