/** The references of the gateway's OpenRPC document and of the configuration file. */
import { componentSchemas, isObject, listAt, stringAt, type BundledDocument } from "./document.ts";
import {
  anchor,
  code,
  join,
  link,
  paragraph,
  paragraphs,
  prose,
  table,
  text,
  type Block,
  type Line,
  type Reference,
  type Section,
} from "./reference-model.ts";
import { errorsOf, rpcErrorSection, type RpcErrorEntry } from "./reference-errors.ts";
import { eventSection } from "./reference-events.ts";
import { schemaSection } from "./reference-http.ts";
import { openSchema, schemaBlocks, sentence } from "./reference-schema.ts";
import { factLines, schemaAnchor, typeLine } from "./reference-type.ts";
import { readMethods, type RpcMethod } from "./rpc-method.ts";

/** Every method and event of an OpenRPC document; `errors` are those that its methods may answer. */
export function rpcReference(document: BundledDocument, errors: readonly RpcErrorEntry[] = []): Reference {
  const { title, version } = document.info;
  const methods = readMethods(document);
  const servers = listAt(document, "servers").filter(isObject);
  return {
    title,
    version,
    blocks: [
      ...paragraphs(stringAt(document.info, "description")),
      ...servers.map((server) => paragraph(text("Server: "), code(stringAt(server, "url") ?? ""))),
    ],
    sections: [
      {
        id: "methods",
        title: "Methods",
        blocks: table(["Method", "What it does", "Scope"], methods.map(methodRow)),
        sections: methods.map((method) => methodSection(document, method, errors)),
      },
      ...eventSection(document),
      ...rpcErrorSection(methods, errors),
      ...schemaSection(document),
    ],
  };
}

/** The configuration file: its sections in their order, then the other schemas. */
export function configReference(config: BundledDocument, version: string): Reference {
  const { Config: root = {}, ...schemas } = componentSchemas(config);
  const rest: BundledDocument = { ...config, components: { schemas } };
  return {
    title: "agentd configuration",
    version,
    blocks: [],
    sections: [
      { id: schemaAnchor("Config"), title: "The file", blocks: schemaBlocks(config, root) },
      ...schemaSection(rest),
    ],
  };
}

function methodRow({ name, summary, scope }: RpcMethod): readonly Line[] {
  return [
    [link(name, anchor("method", name))],
    prose(summary ?? ""),
    scope === undefined ? [] : [code(scope)],
  ];
}

function methodSection(
  document: BundledDocument,
  method: RpcMethod,
  errors: readonly RpcErrorEntry[],
): Section {
  const rows = method.params.map(({ name, required, schema }) => [
    [code(name)],
    typeLine(schema),
    join(
      [
        required ? [text("Required.")] : [],
        prose(stringAt(schema, "description") ?? ""),
        sentence(factLines(schema)),
      ],
      " ",
    ),
  ]);
  return {
    id: anchor("method", method.name),
    title: method.name,
    blocks: [
      ...paragraphs(method.summary),
      ...(method.scope === undefined
        ? []
        : [paragraph(text("Needs the scope "), code(method.scope), text("."))]),
      ...table(["Parameter", "Type", "Description"], rows),
      ...resultBlocks(document, method),
      ...(method.errors.length === 0 ? [] : [paragraph(text("Errors: "), ...errorsOf(method, errors))]),
    ],
  };
}

function resultBlocks(document: BundledDocument, { result }: RpcMethod): readonly Block[] {
  if (result === undefined) return [paragraph(text("A notification: it gets no response."))];
  return [paragraph(text("Result:")), ...openSchema(document, result.schema)];
}
