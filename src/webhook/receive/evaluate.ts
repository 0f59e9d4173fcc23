/**
 * The stages of a request between the rate limit and the record, and every answer of the receiver, typed by the operations
 * of specs/webhook.openapi.yaml. Pure.
 */
import type { OperationId, Operations } from "../../../generated/webhook/server.gen.ts";
import type {
  WebhookAccepted,
  WebhookCoalesced,
  WebhookDelivered,
  WebhookIgnored,
  WebhookRefusal,
  WebhookRefusalCode,
} from "../../../generated/webhook/types/types.gen.ts";
import { isRecord } from "../../base/data.ts";
import type { Tx } from "../../store/store.ts";
import { isExactNumber } from "../../base/data.ts";
import { deliveryIdOf, eventTypeOf, parsePayload, type PayloadProblem } from "./event.ts";
import { explainFilters, filterFiles, passesFilters } from "./filter.ts";
import type { WebhookRoute } from "../routes/route.ts";
import { answerHandshake } from "./handshake.ts";
import type { EvaluationPorts } from "./ports.ts";
import { joinText, type TextPiece } from "../../deliver/target.ts";
import { renderMessage, renderPrompt, type WebhookSubject } from "./template.ts";

/** The stages in order. Only a request that it stops has a result of `receive`. */
export const STAGES = [
  "receive",
  "signature",
  "rate",
  "parse",
  "dedupe",
  "events",
  "filters",
  "script",
  "render",
  "admit",
] as const;

export type StageName = (typeof STAGES)[number];

/** The result of a stage, as the record of a delivery keeps it. */
export interface StageResult {
  readonly stage: StageName;
  readonly result: "pass" | "stop";
  /** For people: which scheme, which filter, how a script ended. Never a secret. */
  readonly detail?: string;
}

/** A request whose signature is good. */
export interface VerifiedRequest {
  readonly route: WebhookRoute;
  readonly headers: Headers;
  readonly body: Uint8Array;
  /** The secret in the path of the URL. */
  readonly pathSecret?: string | undefined;
  /** The delivery id when the sender gives none. */
  readonly requestId: string;
  /** Identifies the signature, when its scheme signs the time. */
  readonly nonce?: string | undefined;
  /** Present: it is not a request of a sender, but the replay of a delivery. */
  readonly replay?: Replay;
}

/** Who replays a delivery, and the record that it becomes. */
export interface Replay {
  /** Id of the delivery that it becomes. */
  readonly id: string;
  /** Id of the delivery that it replays. */
  readonly of: string;
  /** Name of the key. */
  readonly by: string;
  /** Records more in the transaction that records the delivery. */
  readonly alsoRecord: (tx: Tx) => Promise<void>;
}

/** The result of the stages up to the record. */
export interface Evaluated {
  readonly stages: readonly StageResult[];
  readonly deliveryId: string;
  readonly subject: WebhookSubject;
  /** The body as text; absent when it is not UTF-8, or was not parsed. */
  readonly bodyText?: string;
  /** The answer to a request that goes no further. */
  readonly stop?: WebhookAnswer;
  /** The prompt, or the message, of a request that continues. */
  readonly text?: string;
  /** The message in pieces: the words of the route, and those of the sender. */
  readonly pieces?: readonly TextPiece[];
}

/**
 * Runs the stages between the rate limit and the record, up to `upTo`. It writes nothing, so that tests and replays of
 * deliveries use the same stages.
 */
export async function evaluate(
  request: VerifiedRequest,
  ports: EvaluationPorts,
  { upTo = "render" }: { readonly upTo?: StageName } = {},
): Promise<Evaluated> {
  const evaluation = new Evaluation(request);
  for (const [stage, step] of STEPS) {
    // Most steps are synchronous: awaiting each would cost a turn of the event loop.
    const pending = step(evaluation, ports);
    if (pending) await pending;
    if (evaluation.stop || stage === upTo) break;
  }
  return evaluation.result();
}

/** Returns what the headers alone say about a request that `stop` ended before it was parsed. */
export function unevaluated(request: VerifiedRequest, stop: WebhookAnswer): Evaluated {
  const evaluation = new Evaluation(request);
  evaluation.stop = stop;
  return evaluation.result();
}

/** A request on its way through the stages. */
class Evaluation {
  readonly request: VerifiedRequest;
  readonly stages: StageResult[] = [];
  deliveryId: string;
  subject: WebhookSubject;
  bodyText: string | undefined;
  stop: WebhookAnswer | undefined;
  text: string | undefined;
  pieces: readonly TextPiece[] | undefined;

  constructor(request: VerifiedRequest) {
    const { headers, requestId } = request;
    this.request = request;
    this.deliveryId = deliveryIdOf(headers) ?? requestId;
    this.subject = { payload: undefined, event: eventTypeOf(headers, undefined), headers };
  }

  passed(stage: StageName, detail?: string): void {
    this.stages.push({ stage, result: "pass", ...(detail === undefined ? {} : { detail }) });
  }

  stopped(stage: StageName, answer: WebhookAnswer, detail: string): void {
    this.stages.push({ stage, result: "stop", detail });
    this.stop = answer;
  }

  result(): Evaluated {
    const { stages, deliveryId, subject, bodyText, stop, text, pieces } = this;
    return {
      stages,
      deliveryId,
      subject,
      ...(bodyText === undefined ? {} : { bodyText }),
      ...(stop ? { stop } : {}),
      ...(text === undefined ? {} : { text }),
      ...(pieces === undefined ? {} : { pieces }),
    };
  }
}

type Step = (evaluation: Evaluation, ports: EvaluationPorts) => void | Promise<void>;

const parse: Step = (evaluation) => {
  const { route, headers, body, requestId } = evaluation.request;
  const { sender } = route;
  const parsed = parsePayload(body, headers);
  evaluation.bodyText = parsed.text;
  if ("problem" in parsed) {
    const [code, detail] = PAYLOAD_PROBLEMS[parsed.problem];
    return evaluation.stopped("parse", refuse(code), detail);
  }
  const { payload } = parsed;
  evaluation.subject = { payload, event: eventTypeOf(headers, payload, sender), headers };
  if (sender) evaluation.deliveryId = deliveryIdOf(headers, payload, sender) ?? requestId;
  const reply = sender?.handshake && answerHandshake(route, payload);
  if (reply) return evaluation.stopped("parse", { status: 200, body: reply }, "it verifies the URL");
  evaluation.passed("parse");
};

/** Runs before the script: a retry of the sender must not repeat the side effects of a script. */
const dedupe: Step = async (evaluation, ports) => {
  const { route, nonce } = evaluation.request;
  const { deliveryId } = evaluation;
  const first = await ports.findDuplicate({ route: route.name, deliveryId, nonce });
  if (first === undefined) evaluation.passed("dedupe");
  else evaluation.stopped("dedupe", duplicate(first), `duplicate of ${first}`);
};

const events: Step = (evaluation) => {
  const { events: accepted } = evaluation.request.route;
  const { event } = evaluation.subject;
  if (accepted.length === 0 || accepted.includes(event)) evaluation.passed("events", event);
  else evaluation.stopped("events", ignored({ event }), `${event} is not one of ${accepted.join(", ")}`);
};

const filters: Step = (evaluation, ports) => {
  const files = filterFiles(evaluation.request.route.filters);
  if (files.length === 0) return filter(evaluation, ports, new Map());
  return readLists(files, ports).then((lists) => filter(evaluation, ports, lists));
};

function filter(
  evaluation: Evaluation,
  { warn }: EvaluationPorts,
  lists: ReadonlyMap<string, readonly unknown[]>,
): void {
  const { route } = evaluation.request;
  const ports = {
    valuesIn: (path: string) => lists.get(path),
    warn: (problem: string) => warn(`${route.name}: ${problem}`),
  };
  const { subject } = evaluation;
  if (passesFilters(route.filters, subject, ports)) return evaluation.passed("filters");
  const detail = explainFilters(route.filters, subject, ports) ?? "no match";
  evaluation.stopped("filters", ignored({ reason: "filter", route: route.name }), detail);
}

const script: Step = (evaluation, ports) => {
  const { script: path } = evaluation.request.route;
  return path === undefined ? undefined : runScript(evaluation, ports, path);
};

async function runScript(evaluation: Evaluation, ports: EvaluationPorts, path: string): Promise<void> {
  const { route } = evaluation.request;
  const { deliveryId, subject } = evaluation;
  const { payload, event } = subject;
  const outcome = await ports.runScript(path, { payload, event, deliveryId });
  const answer = ignored({ reason: "script", route: route.name });
  switch (outcome.status) {
    case "payload":
      evaluation.subject = { ...subject, payload: outcome.payload };
      return evaluation.passed("script", "it replaced the payload");
    case "text":
      evaluation.subject = { ...subject, payload: withText(payload, outcome.text) };
      return evaluation.passed("script", "it added script_output");
    case "ignore":
      return evaluation.stopped("script", answer, outcome.reason);
    case "failed":
      return evaluation.stopped("script", route.retriesScript ? retryLater(route) : answer, outcome.reason);
  }
}

const render: Step = (evaluation, ports) => {
  const { route } = evaluation.request;
  if (!route.deliverOnly) return renderForAgent(evaluation, ports);
  evaluation.pieces = renderMessage(route, evaluation.subject);
  evaluation.text = joinText(evaluation.pieces);
  evaluation.passed("render");
};

async function renderForAgent(evaluation: Evaluation, { loadSkill }: EvaluationPorts): Promise<void> {
  const { route } = evaluation.request;
  const skill = route.skills.length > 0 ? await loadSkill(route.skills) : undefined;
  evaluation.text = renderPrompt(route, evaluation.subject, skill);
  evaluation.passed("render", skill && `with the skill ${skill.name}`);
}

const STEPS: readonly (readonly [StageName, Step])[] = Object.entries({
  parse,
  dedupe,
  events,
  filters,
  script,
  render,
} satisfies Partial<Record<StageName, Step>>) as [StageName, Step][];

const RETRY_SECONDS = 60;

function retryLater({ name }: WebhookRoute): WebhookAnswer {
  return refuse("script_failed", {
    status: "error",
    reason: "script_failed",
    route: name,
    retryAfterSeconds: RETRY_SECONDS,
  });
}

const PAYLOAD_PROBLEMS = {
  malformed: ["unparsable_body", "the body is not JSON"],
  too_deep: ["unparsable_body", "the body is nested too deeply"],
  too_many_fields: ["unparsable_body", "the form has too many fields"],
  type: ["unsupported_type", "the content type is neither JSON nor a form"],
  encoding: ["unsupported_type", "the body has a content encoding"],
} as const satisfies Readonly<Record<PayloadProblem, readonly [string, string]>>;

/** Adds `script_output` to the payload. A payload that is not an object moves to the field `payload`. */
function withText(payload: unknown, text: string): unknown {
  return isRecord(payload) && !isExactNumber(payload)
    ? { ...payload, script_output: text }
    : { payload, script_output: text };
}

/** Reads the files that filters name, so that the filters themselves stay pure. */
async function readLists(
  files: readonly string[],
  { valuesIn }: EvaluationPorts,
): Promise<ReadonlyMap<string, readonly unknown[]>> {
  const lists = new Map<string, readonly unknown[]>();
  for (const path of new Set(files)) {
    const values = await valuesIn(path);
    if (values) lists.set(path, values);
  }
  return lists;
}

type Responses<K extends OperationId> = Operations[K]["response"];
type RefusalResponse = Extract<Responses<OperationId>, { readonly body: WebhookRefusal }>;
type KeyOf<T> = T extends unknown ? keyof T : never;
type RefusalHeader = KeyOf<NonNullable<RefusalResponse["headers"]>>;

/** What a handler of operation `K` may answer: the successes that the spec lists for it, and refusals. */
export type AnswerOf<K extends OperationId> =
  | Exclude<Responses<K>, { readonly body: WebhookRefusal }>
  | Refused;

export type WebhookAnswer = AnswerOf<"receiveWebhook">;

export interface Refused {
  readonly status: RefusalResponse["status"];
  readonly headers?: { readonly [Name in RefusalHeader]?: string };
  /** For the log only: the sender must not learn it. */
  readonly why?: string;
  /** The binder adds the request id. */
  readonly body: Omit<WebhookRefusal, "request_id">;
}

/** The texts, which senders compare word for word, with their statuses. */
const REFUSALS = {
  unknown_route: [404, "Unknown route"],
  route_disabled: [403, "Route disabled"],
  no_secret: [403, "Webhook route is missing a webhook secret"],
  invalid_signature: [401, "Invalid signature"],
  rate_limited: [429, "Rate limit exceeded"],
  body_too_large: [413, "Payload too large"],
  body_timeout: [408, "The body did not arrive in time"],
  bad_request: [400, "Bad request"],
  unparsable_body: [400, "Cannot parse body"],
  unsupported_type: [415, "Send JSON, or a form, without a content encoding"],
  method_not_allowed: [405, "Method not allowed"],
  not_found: [404, "Not found"],
  script_failed: [503, "The route's script failed"],
  delivery_failed: [502, "Delivery failed"],
  draining: [503, "The receiver is shutting down"],
  store_unavailable: [503, "The receiver cannot record this now"],
  internal: [500, "Internal error"],
} as const satisfies Readonly<Record<WebhookRefusalCode, readonly [Refused["status"], string]>>;

/** A status that the spec lists for refusals, and that no code has, is a compile error here. */
type UnusedStatus = Exclude<Refused["status"], (typeof REFUSALS)[WebhookRefusalCode][0]>;
const refusals: [UnusedStatus] extends [never] ? typeof REFUSALS : never = REFUSALS;

/** Returns the refusal with the status and text of `code`. */
export function refuse(
  code: WebhookRefusalCode,
  more: Omit<Refused["body"], "error" | "code"> & { readonly retryAfterSeconds?: number } = {},
): Refused {
  const [status, error] = refusals[code];
  const { retryAfterSeconds, ...rest } = more;
  return {
    status,
    body: { error, code, ...rest },
    ...(retryAfterSeconds === undefined ? {} : { headers: { "retry-after": String(retryAfterSeconds) } }),
  };
}

export const accepted = (body: Omit<WebhookAccepted, "status">): WebhookAnswer => ({
  status: 202,
  body: { status: "accepted", ...body },
});

export const coalesced = (body: Omit<WebhookCoalesced, "status">): WebhookAnswer => ({
  status: 202,
  body: { status: "coalesced", ...body },
});

export const ignored = (body: Omit<WebhookIgnored, "status">): WebhookAnswer => ({
  status: 200,
  body: { status: "ignored", ...body },
});

export const duplicate = (deliveryId: string): WebhookAnswer => ({
  status: 200,
  body: { status: "duplicate", delivery_id: deliveryId },
});

export const delivered = (body: Omit<WebhookDelivered, "status">): WebhookAnswer => ({
  status: 200,
  body: { status: "delivered", ...body },
});
