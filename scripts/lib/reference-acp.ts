/** The reference of the ACP server: what it claims, and what `docs` of its spec says of it. */
import { isObject, listAt, objectAt, stringAt, type JsonObject } from "./document.ts";
import type { AcpSpec } from "./emit-acp.ts";
import {
  code,
  paragraphs,
  prose,
  table,
  text,
  type Line,
  type Reference,
  type Section,
} from "./reference-model.ts";

/** Methods without a line in `docs` stand there by their name; lines of what is not claimed are left out. */
export function acpReference(spec: AcpSpec, version: string): Reference {
  const docs = objectAt(spec, "docs");
  return {
    title: `${spec.title} ACP server`,
    version,
    blocks: paragraphs(stringAt(docs, "description")),
    sections: [
      methodSection(spec, objectAt(docs, "methods")),
      clientSection(objectAt(docs, "client")),
      capabilitySection(spec),
      authSection(spec),
      errorSection(listAt(docs, "errors").filter(isObject)),
    ],
  };
}

function methodSection({ requests, notifications, extensions }: AcpSpec, lines: JsonObject): Section {
  const row = (kind: string) => (name: string) => [[code(name)], [text(kind)], lineAt(lines, name)];
  return {
    id: "methods",
    title: "Methods",
    blocks: table(
      ["Method", "Kind", "What it does"],
      [
        ...requests.map(row("request")),
        ...notifications.map(row("notification")),
        ...extensions.map(row("extension")),
      ],
    ),
  };
}

function clientSection(lines: JsonObject): Section {
  const rows = Object.keys(lines).map((name) => [[code(name)], lineAt(lines, name)]);
  return {
    id: "client",
    title: "Messages to the client",
    blocks: table(["Message", "When"], rows),
  };
}

function capabilitySection({ protocolVersion, agentCapabilities }: AcpSpec): Section {
  return {
    id: "capabilities",
    title: "Capabilities",
    blocks: [
      ...paragraphs(`\`initialize\` answers protocol version ${protocolVersion} and these capabilities.`),
      { kind: "code", language: "json", text: JSON.stringify(agentCapabilities, null, 2) },
    ],
  };
}

function authSection({ authMethods }: AcpSpec): Section {
  const rows = Object.values(authMethods).map((method) => [
    [code(stringAt(method, "id") ?? "")],
    [code(stringAt(method, "type") ?? "agent")],
    lineAt(method, "description"),
  ]);
  return {
    id: "authentication",
    title: "Authentication",
    blocks: table(["Id", "Type", "What it does"], rows),
  };
}

function errorSection(errors: readonly JsonObject[]): Section {
  const rows = errors.map((error) => [
    [code(String(error["code"]))],
    lineAt(error, "when"),
    stringAt(error, "data") === undefined ? [] : [code(stringAt(error, "data") ?? "")],
  ]);
  return { id: "errors", title: "Errors", blocks: table(["Code", "When", "`data`"], rows) };
}

function lineAt(lines: JsonObject, name: string): Line {
  return prose(stringAt(lines, name) ?? "");
}
