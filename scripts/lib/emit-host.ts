/** Prints the requests and notifications of the gateway to a host, from the host's bundled OpenRPC document. */
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
} from "./document.ts";
import { printImports, printRequests, readRequests, type RpcImports } from "./emit-rpc.ts";
import { printDoc, printKey, printLiteral, printRows } from "./print.ts";
import { readMethods } from "./rpc-method.ts";

/** The component that is the union of all events; each has a `type` of its own and a `payload`. */
export const EVENT_UNION = "GatewayEvent";

export interface EventType {
  readonly type: string;
  /** Components. */
  readonly event: string;
  readonly payload: string;
  readonly summary: string | undefined;
}

/** `HostRequests` and its table, `HostNotifications`, and every event with its payload. */
export function emitHost(host: BundledDocument, imports: RpcImports): string {
  const requests = readRequests(host);
  const notifications = readMethods(host).filter(({ result }) => result === undefined);
  const events = readEvents(host);
  return `${printImports(requests, imports, ["EventMeta", "RequestMeta"])}
${printRequests("host", requests)}
/** Notifications of the gateway to the host. */
export interface HostNotifications {
${notifications.map(({ name, summary, paramsName }) => `${printDoc(summary, "  ")}  ${printKey(name)}: T.${paramsName};\n`).join("")}}

/** Every event, by its type. */
export interface GatewayEvents {
${events.map(({ type, event, summary }) => `${printDoc(summary, "  ")}  ${printKey(type)}: T.${event};\n`).join("")}}

export type GatewayEventType = keyof GatewayEvents;
export type GatewayEvent = GatewayEvents[GatewayEventType];
export type GatewayPayload<K extends GatewayEventType> = GatewayEvents[K]["payload"];

export const gatewayEvents: { readonly [K in GatewayEventType]: EventMeta } = {
${printRows(
  events.map(({ type, event, payload }) => [
    type,
    printLiteral({ event: componentReference(event), payload: componentReference(payload) }, "  "),
  ]),
  ",",
)}};
`;
}

/** In the order of the union; none where there is no union. Throws SpecError for a branch without a type or a named payload of its own. */
export function readEvents(host: BundledDocument): readonly EventType[] {
  const branches = listAt(componentSchemas(host)[EVENT_UNION], "oneOf");
  const read = branches.map((branch): EventType | string => {
    const event = componentName(objectAt({ branch }, "branch")["$ref"]);
    const schema = dereference(host, branch);
    const type = stringAt(objectAt(objectAt(schema, "properties"), "type"), "const");
    const payload = componentName(objectAt(objectAt(schema, "properties"), "payload")["$ref"]);
    if (event === undefined) return `${EVENT_UNION}: every branch must be a reference to a schema`;
    if (type === undefined) return `${event}: an event needs a type that is a const`;
    if (payload === undefined) return `${event}: the payload must be a reference to a schema`;
    return { type, event, payload, summary: stringAt(schema, "description") };
  });
  const problems = read.filter((each) => typeof each === "string");
  if (problems.length > 0) throw new SpecError(problems);
  return read.filter((each) => typeof each !== "string");
}
