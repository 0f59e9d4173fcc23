/** Recorded deliveries as new requests. */
import type { Delivery } from "./deliveries.ts";
import { evaluate, type Evaluated, type StageName, type VerifiedRequest } from "../receive/evaluate.ts";
import { DELIVERY_HEADERS, REPLAY_HEADER, WEBHOOK_SOURCES } from "../receive/event.ts";
import { signHeaders } from "../receive/signature.ts";
import { createEvaluationPorts, type EvaluationPorts, type PortOptions } from "../receive/ports.ts";
import { ALL, platformsOf, resolveAddresses, type Homes } from "../../deliver/address.ts";
import { platformProblems } from "../../deliver/platform/platforms.ts";
import { missingFields, renderTexts } from "../receive/template.ts";
import { findDeliveryGaps, type WebhookRoute } from "../routes/route.ts";

/** What the receiver would do with a request. */
export interface DryRun extends Evaluated {
  /** Absent: a stage stopped the request. */
  readonly delivery?: PlannedDelivery;
}

/** Where the message, or the answer of the agent, would go. */
export interface PlannedDelivery {
  readonly kind: "message" | "answer";
  /** Complete addresses. */
  readonly targets: readonly string[];
  /** Rendered. */
  readonly extra: Readonly<Record<string, unknown>>;
  /** What keeps targets from sending, a sentence each without its full stop. */
  readonly problems: readonly string[];
  /** Fields that the templates name and the payload does not have, as they are written. */
  readonly missingFields: readonly string[];
}

interface DryRunOptions extends PortOptions {
  /** Home channels of the platforms. */
  readonly homes: Homes;
  readonly upTo?: StageName | undefined;
}

/** Evaluates a request in this process, outside the receiver; see {@link rehearse}. */
export async function dryRun(request: VerifiedRequest, options: DryRunOptions): Promise<DryRun> {
  const { upTo } = options;
  const ports = createEvaluationPorts(options);
  const evaluated = await rehearse(request, ports, upTo === undefined ? {} : { upTo });
  if (evaluated.text === undefined) return evaluated;
  return { ...evaluated, delivery: await planDelivery(request.route, evaluated, options) };
}

async function planDelivery(
  route: WebhookRoute,
  { subject }: Evaluated,
  { config, env, homes }: DryRunOptions,
): Promise<PlannedDelivery> {
  const { deliver, deliverExtra, deliverOnly, prompt = "" } = route;
  const extra = renderTexts(deliverExtra, subject) as Readonly<Record<string, unknown>>;
  const names = platformsOf(deliver);
  const all = names.includes(ALL) && homes.size === 0 ? ["all: no platform has a home_channel"] : [];
  const templates = [prompt, JSON.stringify(deliverExtra)];
  return {
    kind: deliverOnly ? "message" : "answer",
    targets: resolveAddresses(deliver, { extra, homes }),
    extra,
    problems: [...all, ...findDeliveryGaps(route), ...(await platformProblems(names, config, env))],
    missingFields: [...new Set(templates.flatMap((each) => missingFields(each, subject)))],
  };
}

/** Evaluates a request as the route is now, up to a stage. Its script runs, nothing is recorded, and nothing is a duplicate. */
export async function rehearse(
  request: VerifiedRequest,
  ports: Omit<EvaluationPorts, "findDuplicate">,
  options: { readonly upTo?: StageName } = {},
): Promise<Evaluated> {
  return evaluate(request, { ...ports, findDuplicate: async () => undefined }, options);
}

/** Headers of the connection, the signature and the delivery id: a new request needs its own. */
const OF_ONE_REQUEST =
  /^(host|connection|keep-alive|transfer-encoding|te|trailer|upgrade|expect|content-length|content-encoding|accept-encoding|x-forwarded-.*|forwarded|x-request-id|(svix|webhook|x-webhook)-timestamp)$/i;
const REDACTED = "[redacted]";

/** Returns the headers for a replay of a delivery; the caller adds the signature. */
export function replayHeaders({ id, headers }: Delivery): Readonly<Record<string, string>> {
  const again = Object.entries(headers).filter(
    ([name, value]) => !OF_ONE_REQUEST.test(name) && !DELIVERY_HEADERS.includes(name) && value !== REDACTED,
  );
  return { ...Object.fromEntries(again), [REPLAY_HEADER]: id };
}

/** Returns the headers that sign a body as the sender of the route would: by its scheme, else like GitHub. */
export function signedHeaders(
  { secrets, sender }: WebhookRoute,
  body: Uint8Array,
  nowMs: number,
): Readonly<Record<string, string>> {
  return signHeaders({ secrets, scheme: sender }, body, nowMs);
}

/** Of a route that accepts all events. */
const TEST_EVENT = "test";

/** Returns an event type that the route accepts. */
export function defaultEventOf({ events }: Pick<WebhookRoute, "events">): string {
  return events[0] ?? TEST_EVENT;
}

/** Returns the body of a test request: a small example in JSON. */
export function exampleBody(event: string): Uint8Array<ArrayBuffer> {
  const example = { test: true, event_type: event, message: "Hello from agentd webhook test" };
  return new TextEncoder().encode(JSON.stringify(example));
}

/** Returns the headers, with the event type unless a given header has it. */
export function testHeaders(
  given: Readonly<Record<string, string>>,
  { event, defaultEvent }: { readonly event: string | undefined; readonly defaultEvent: string },
): Readonly<Record<string, string>> {
  return {
    "content-type": "application/json",
    ...(event === undefined && namesEvent(given) ? {} : { "x-github-event": event ?? defaultEvent }),
    ...given,
  };
}

/** Whether a header says what the event is. Names in lower case. */
function namesEvent(headers: Readonly<Record<string, string>>): boolean {
  return WEBHOOK_SOURCES.some(({ eventHeader }) => eventHeader in headers);
}
