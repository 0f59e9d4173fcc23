/** Writes generated/reference: the specs as documents for people. Touches the machine. */
import { join } from "node:path";
import { errorTable, type ErrorRow } from "../../src/base/errors.ts";
import type { Bundles } from "./bundle.ts";
import type { BundledDocument } from "./document.ts";
import type { AcpSpec } from "./emit-acp.ts";
import { writeText } from "./files.ts";
import { readOperations } from "./operation.ts";
import { HEADER } from "./print.ts";
import { acpReference } from "./reference-acp.ts";
import { deliveryReference } from "./reference-delivery.ts";
import { httpReference, type ErrorEntry } from "./reference-http.ts";
import { printIndex, printMarkdown } from "./reference-markdown.ts";
import type { Reference } from "./reference-model.ts";
import type { RpcErrorEntry } from "./reference-errors.ts";
import { printPage, type Page } from "./reference-page.ts";
import { configReference, rpcReference } from "./reference-rpc.ts";

/** Markdown of every spec that is there, an index, and the page of the HTTP API. The same specs give the same bytes. */
export async function writeReference(
  folder: string,
  bundles: Bundles,
  acp: AcpSpec | undefined,
): Promise<void> {
  const { http, webhook, gateway, host, config } = bundles;
  const page = openApiReference(http, errorEntries());
  const delivery = deliveryReference(config, http.info.version);
  const references: readonly (readonly [file: string, reference: Reference])[] = [
    ["http.md", page],
    ...(webhook ? [["webhook.md", openApiReference(webhook, [])] as const] : []),
    ["gateway.md", rpcReference(gateway, rpcErrorEntries())],
    ...(host ? [["host.md", rpcReference(host)] as const] : []),
    ...(acp ? [["acp.md", acpReference(acp, http.info.version)] as const] : []),
    ...(delivery ? [["delivery.md", delivery] as const] : []),
    ["config.md", configReference(config, http.info.version)],
  ];
  const index = references.map(([file, { title }]) => ({ file, title }));
  await Promise.all([
    ...references.map(([file, reference]) => writeText(join(folder, file), printMarkdown(reference))),
    writeText(join(folder, "README.md"), printIndex(index)),
    writeText(join(folder, "docs.gen.ts"), emitDocs(printPage(page))),
  ]);
}

/** The module that GET /docs answers from. */
export function emitDocs({ html, policy }: Page): string {
  return `${HEADER}
/** Content-Security-Policy of the page: its own style and script, by their hashes, and nothing else. */
export const docsPolicy = ${JSON.stringify(policy)};

/** The reference of the HTTP API as one HTML page. */
export const docsPage = \`${html.replaceAll(/[\\`]|\$(?=\{)/g, String.raw`\$&`)}\`;
`;
}

function openApiReference(document: BundledDocument, errors: readonly ErrorEntry[]): Reference {
  return httpReference(document, readOperations(document), errors);
}

/** The table of all surfaces as this one sees it: by status, then by code, two codes of one wire name once. */
function errorEntries(): readonly ErrorEntry[] {
  const rows = Object.entries<ErrorRow>(errorTable).filter(([, row]) => row.only === undefined);
  const entries = rows.map(([code, row]) => ({
    code: row.wire ?? code,
    status: row.http,
    type: row.type,
    retryable: row.retryable,
  }));
  const unique = new Map(entries.map((entry) => [`${entry.status} ${entry.code}`, entry]));
  return [...unique.values()].toSorted((a, b) => a.status - b.status || (a.code < b.code ? -1 : 1));
}

/** What any method of the gateway may answer. */
const ANYWHERE: readonly (keyof typeof errorTable)[] = [
  "unknown_method",
  "invalid_params",
  "internal_error",
  "overloaded",
  "server_draining",
  "state_store_unavailable",
  "insufficient_scope",
];
/** What methods of the gateway answer, of the codes that it shares with other surfaces. */
const SHARED: ReadonlySet<string> = new Set([
  "session_not_found",
  "session_busy",
  "nothing_to_branch",
  "nothing_to_undo",
  "unknown_command",
  "queue_full",
  "too_many_concurrent_runs",
]);
/** Said by the framing, before there is a method. */
const FRAMING: readonly RpcErrorEntry[] = [
  { number: -32700, reason: "parse_error", retryable: false, anywhere: true },
  { number: -32600, reason: "invalid_request", retryable: false, anywhere: true },
  { number: -32600, reason: "frame_too_large", retryable: false, anywhere: true },
];

/** The same table as the gateway sees it: by number, a reason of one number once. */
function rpcErrorEntries(): readonly RpcErrorEntry[] {
  const rows = Object.entries<ErrorRow>(errorTable);
  const isOurs = ([name, { rpc, only, reason }]: readonly [string, ErrorRow]) =>
    rpc > 0 && (only === "rpc" || reason !== undefined || SHARED.has(name));
  const listed = rows.filter(isOurs).map(([name, row]) => toRpcEntry(name, row, false));
  const anywhere = ANYWHERE.map((name) => toRpcEntry(name, errorTable[name], true));
  const unique = new Map([...listed, ...anywhere].map((entry) => [`${entry.number} ${entry.reason}`, entry]));
  return [...FRAMING, ...[...unique.values()].toSorted((a, b) => a.number - b.number)];
}

function toRpcEntry(name: string, { rpc, reason, retryable }: ErrorRow, anywhere: boolean): RpcErrorEntry {
  return { number: rpc, reason: reason ?? name, retryable, anywhere };
}
