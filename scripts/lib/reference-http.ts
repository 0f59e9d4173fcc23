/** The reference of an OpenAPI document: how to call it, every operation, every error, every schema. */
import {
  componentSchemas,
  dereference,
  isObject,
  listAt,
  objectAt,
  stringAt,
  type BundledDocument,
  type JsonObject,
  type Schema,
} from "./document.ts";
import type { Operation, Response } from "./operation.ts";
import { guideSections } from "./reference-guide.ts";
import { curlExample, exampleOf, hasExample } from "./reference-example.ts";
import {
  anchor,
  code,
  join,
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
import { schemaBlocks, sentence } from "./reference-schema.ts";
import { factLines, schemaAnchor, typeLine } from "./reference-type.ts";

/** One stable error code and what the wire makes of it. */
export interface ErrorEntry {
  readonly code: string;
  readonly status: number;
  readonly type: string;
  readonly retryable: boolean;
}

/** `errors` are the codes of the document's error bodies; a document without codes of its own has none. */
export function httpReference(
  document: BundledDocument,
  operations: readonly Operation[],
  errors: readonly ErrorEntry[],
): Reference {
  const { title, version } = document.info;
  return {
    title,
    version,
    blocks: [
      ...paragraphs(stringAt(document.info, "summary")),
      ...paragraphs(stringAt(document.info, "description")),
      ...serverBlocks(document),
    ],
    sections: [
      ...authSection(document, operations),
      ...guideSections(document),
      ...tagSections(document, operations),
      ...errorSection(errors),
      ...schemaSection(document),
    ],
  };
}

/** All named schemas, by name. */
export function schemaSection(document: BundledDocument): readonly Section[] {
  const schemas = Object.entries(componentSchemas(document)).toSorted(([a], [b]) => (a < b ? -1 : 1));
  if (schemas.length === 0) return [];
  const sections = schemas.map(([name, schema]) => ({
    id: schemaAnchor(name),
    title: name,
    nav: name,
    blocks: schemaBlocks(document, schema),
  }));
  return [{ id: "schemas", title: "Schemas", nav: "Schemas", blocks: [], sections }];
}

function serverBlocks(document: BundledDocument): readonly Block[] {
  return listAt(document, "servers")
    .filter(isObject)
    .map((server) =>
      paragraph(
        text("Server: "),
        code(stringAt(server, "url") ?? "/"),
        ...prefixed(" – ", prose(stringAt(server, "description") ?? "")),
      ),
    );
}

function authSection(document: BundledDocument, operations: readonly Operation[]): readonly Section[] {
  const schemes = Object.entries(objectAt(document["components"], "securitySchemes")).map(
    ([name, scheme]) => [
      [code(name)],
      schemeLine(dereference(document, scheme)),
      prose(stringAt(dereference(document, scheme), "description") ?? ""),
    ],
  );
  if (schemes.length === 0) return [];
  const scopes = [
    ...new Set(operations.flatMap(({ scope }) => (scope === undefined ? [] : [scope]))),
  ].toSorted();
  const scopeRows = scopes.map((scope) => [
    [code(scope)],
    join(
      operations.filter((each) => each.scope === scope).map((each) => [operationLink(each)]),
      ", ",
    ),
  ]);
  const open = operations.filter(({ security }) => security.length === 0);
  return [
    {
      id: "authentication",
      title: "Authentication",
      nav: "Authentication",
      blocks: [
        ...table(["Scheme", "How", "Description"], schemes),
        ...(scopeRows.length === 0 ? [] : [paragraph(text("Each scope of a key allows some operations:"))]),
        ...table(["Scope", "Operations"], scopeRows),
        ...(open.length === 0
          ? []
          : [
              paragraph(
                text("No key is needed for "),
                ...join(
                  open.map((each) => [operationLink(each)]),
                  ", ",
                ),
                text("."),
              ),
            ]),
      ],
    },
  ];
}

function schemeLine(scheme: JsonObject): Line {
  if (scheme["type"] === "http" && scheme["scheme"] === "bearer")
    return [code("Authorization: Bearer <key>")];
  if (scheme["type"] === "apiKey") {
    return [text(`${stringAt(scheme, "in") ?? ""} `), code(stringAt(scheme, "name") ?? "")];
  }
  return [text([scheme["type"], scheme["scheme"]].filter((word) => word !== undefined).join(" "))];
}

/** Tags in the order of the document, then those that only operations name, then operations without any. */
function tagSections(document: BundledDocument, operations: readonly Operation[]): readonly Section[] {
  const declared = listAt(document, "tags").filter(isObject);
  const names = new Set([...declared.map(({ name }) => String(name)), ...operations.map(tagOf)]);
  return [...names].flatMap((name) => {
    const members = operations.filter((operation) => tagOf(operation) === name);
    if (members.length === 0) return [];
    const tag = declared.find((each) => each["name"] === name);
    return [
      {
        id: anchor("tag", name),
        title: name,
        nav: name,
        blocks: paragraphs(tag && stringAt(tag, "description")),
        sections: members.map((operation) => operationSection(document, operation)),
      },
    ];
  });
}

function tagOf({ tags }: Operation): string {
  return tags[0] === undefined ? "Other" : String(tags[0]);
}

function operationLink({ id, method, route }: Operation) {
  return {
    kind: "link",
    text: id === "" ? `${method} ${route}` : id,
    to: operationAnchor({ id, method, route }),
  } as const;
}

function operationAnchor({ id, method, route }: Pick<Operation, "id" | "method" | "route">): string {
  return id === "" ? anchor("operation", method, route) : anchor("operation", id);
}

function operationSection(document: BundledDocument, operation: Operation): Section {
  const item = objectAt(document["paths"], operation.route);
  const node = objectAt(item, operation.method.toLowerCase());
  const body = requestBody(document, node);
  const command = stringAt(node, "x-curl") ?? curlExample(document, operation, body.example);
  const section = (name: string, blocks: readonly Block[]): readonly Section[] =>
    blocks.length === 0 ? [] : [{ id: `${operationAnchor(operation)}-${anchor(name)}`, title: name, blocks }];
  return {
    id: operationAnchor(operation),
    title: operation.route,
    badge: operation.method,
    nav: operation.summary ?? operation.id,
    blocks: [
      ...paragraphs(operation.summary),
      ...paragraphs(stringAt(node, "description")),
      paragraph(...accessLine(operation, node)),
    ],
    sections: [
      ...section(
        "Parameters",
        parameterBlocks(document, [...listAt(item, "parameters"), ...listAt(node, "parameters")]),
      ),
      ...section("Request body", body.blocks),
      ...section("Responses", responseBlocks(document, node, operation)),
      ...section("Stream", streamBlocks(document, operation)),
      ...section("Example", [
        { kind: "code", language: "sh", text: command },
        ...answerExample(document, node),
      ]),
    ],
  };
}

function accessLine({ id, scope, security }: Operation, node: JsonObject): Line {
  return [
    ...(id === "" ? [] : [text("Operation "), code(id), text(". ")]),
    ...(node["deprecated"] === true ? [text("Deprecated. ")] : []),
    ...(security.length === 0
      ? [text("No key needed.")]
      : scope === undefined
        ? [text("Needs a key.")]
        : [text("Needs a key with the scope "), code(scope), text(".")]),
  ];
}

/** The operation's own parameters come last and replace those of the path. */
function parameterBlocks(document: BundledDocument, given: readonly unknown[]): readonly Block[] {
  const parameters = new Map<string, JsonObject>();
  for (const parameter of given.map((each) => dereference(document, each))) {
    parameters.set(`${String(parameter["in"])} ${String(parameter["name"])}`, parameter);
  }
  const rows = [...parameters.values()].map((parameter) => {
    const schema = objectAt(parameter, "schema");
    return [
      [code(stringAt(parameter, "name") ?? "")],
      [text(stringAt(parameter, "in") ?? "")],
      typeLine(schema),
      join(
        [
          parameter["required"] === true ? [text("Required.")] : [],
          prose(stringAt(parameter, "description") ?? stringAt(schema, "description") ?? ""),
          sentence(factLines(schema)),
        ],
        " ",
      ),
    ];
  });
  return table(["Name", "In", "Type", "Description"], rows);
}

interface RequestBody {
  readonly blocks: readonly Block[];
  readonly example: unknown;
}

function requestBody(document: BundledDocument, node: JsonObject): RequestBody {
  if (node["requestBody"] === undefined) return { blocks: [], example: undefined };
  const body = dereference(document, node["requestBody"]);
  const contents = Object.entries(objectAt(body, "content"));
  const blocks = contents.flatMap(([type, media]) => {
    const schema = objectAt(media, "schema");
    const demand = body["required"] === true ? ", required: " : ", optional: ";
    return [
      paragraph(code(type), text(demand), ...typeLine(schema), text(".")),
      ...schemaBlocks(document, dereference(document, schema)),
    ];
  });
  const json = objectAt(body, "content")["application/json"];
  return {
    blocks: [...paragraphs(stringAt(body, "description")), ...blocks],
    example: isObject(json) ? bodyExample(document, json, body["required"] === true) : undefined,
  };
}

/** A body that may be left out and has no example is left out. */
function bodyExample(document: BundledDocument, media: JsonObject, required: boolean): unknown {
  return required || hasExample(media) ? exampleOf(document, media) : undefined;
}

/** Statuses that answer alike share a row. */
function responseBlocks(document: BundledDocument, node: JsonObject, operation: Operation): readonly Block[] {
  const rows = new Map<string, { readonly statuses: string[]; readonly cells: readonly Line[] }>();
  for (const response of operation.responses) {
    const cells = responseCells(document, objectAt(node, "responses")[response.status], response);
    const key = JSON.stringify(cells);
    const row = rows.get(key);
    if (row) row.statuses.push(response.status);
    else rows.set(key, { statuses: [response.status], cells });
  }
  return table(
    ["Status", "Body", "Description"],
    [...rows.values()].map(({ statuses, cells }) => [
      join(
        statuses.map((each) => [code(each)]),
        ", ",
      ),
      ...cells,
    ]),
  );
}

function responseCells(document: BundledDocument, node: unknown, response: Response): readonly Line[] {
  const resolved = dereference(document, node);
  const bodies = response.media.map(({ type, schema }) =>
    type === "application/json"
      ? typeLine(schema)
      : type === "text/event-stream"
        ? [text("stream of "), ...typeLine(schema)]
        : [code(type)],
  );
  const headers = Object.entries(objectAt(resolved, "headers")).flatMap(([name, header]): Line[] => {
    const { description, "x-common": isCommon } = dereference(document, header);
    if (isCommon === true) return [];
    if (typeof description !== "string") return [[code(name)]];
    return [[code(name), text(" ("), ...prose(description), text(")")]];
  });
  return [
    bodies.length === 0 ? [text("none")] : join(bodies, " or "),
    [
      ...prose(stringAt(resolved, "description") ?? ""),
      ...(headers.length === 0 ? [] : [text(" Headers: "), ...join(headers, ", "), text(".")]),
    ],
  ];
}

function streamBlocks(document: BundledDocument, { responses, sse }: Operation): readonly Block[] {
  const media = responses
    .flatMap((response) => response.media)
    .find(({ type }) => type === "text/event-stream");
  if (media === undefined) return [];
  const { id, event, terminator } = sse ?? {};
  const facts: readonly Line[] = [
    typeof event === "string" ? [text("The name of each event is its field "), code(event), text(".")] : [],
    typeof id === "string"
      ? [
          text("Its id is its field "),
          code(id),
          text(": send the last one as "),
          code("Last-Event-ID"),
          text(" to resume from there."),
        ]
      : [],
    terminator === "close"
      ? [text("The stream closes after the last event.")]
      : typeof terminator === "string"
        ? [text("The last line is "), code(`data: ${terminator}`), text(".")]
        : [],
  ];
  return [
    paragraph(
      text("Server-sent events; the data of each is "),
      ...typeLine(media.schema),
      text(". "),
      ...join(facts, " "),
    ),
    ...schemaBlocks(document, dereference(document, media.schema)),
  ];
}

/** Only an answer that the spec gives an example of is shown: a made-up one would teach nothing. */
function answerExample(document: BundledDocument, node: JsonObject): readonly Block[] {
  const success = Object.entries(objectAt(node, "responses")).find(([status]) => status.startsWith("2"));
  const media = objectAt(objectAt(dereference(document, success?.[1]), "content"), "application/json");
  if (!hasExample(media)) return [];
  return [
    { kind: "code", language: "json", text: JSON.stringify(exampleOf(document, media as Schema), null, 2) },
  ];
}

function errorSection(errors: readonly ErrorEntry[]): readonly Section[] {
  if (errors.length === 0) return [];
  const rows = errors.map(({ code: name, status, type, retryable }) => [
    [code(String(status))],
    [code(name)],
    [code(type)],
    [text(retryable ? "yes" : "no")],
  ]);
  return [
    {
      id: "errors",
      title: "Errors",
      nav: "Errors",
      blocks: [
        paragraph(
          ...prose(
            "The `code` of an error says exactly what happened and never changes its meaning; `message` is for people.",
          ),
        ),
        ...table(["Status", "Code", "Type", "Retryable"], rows),
      ],
    },
  ];
}

function prefixed(words: string, line: Line): Line {
  return line.length === 0 ? [] : [text(words), ...line];
}
