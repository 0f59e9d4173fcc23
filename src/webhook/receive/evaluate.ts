import { isRecord } from "../../base/json/schema.ts";
import { isExactNumber } from "../../base/json/exact-json.ts";
import { duplicate, ignored, refuse, type WebhookAnswer } from "./answer.ts";
import { deliveryIdOf, eventTypeOf, parsePayload, type PayloadProblem } from "./event.ts";
import { filterFiles, passesFilters } from "./filter.ts";
import type { DedupeKey } from "./dedupe.ts";
import type { WebhookRoute } from "../routes/route.ts";
import type { LoadSkill, RunScript } from "./script.ts";
import { renderPrompt, renderRoute, type WebhookSubject } from "./template.ts";

/** The stages after the body is read, in order. */
export const STAGES = [
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
  /** The delivery id when the sender gives none. */
  readonly requestId: string;
  /** Identifies the signature, when its scheme signs the time. */
  readonly nonce?: string | undefined;
}

export interface EvaluationPorts {
  /** Returns the values that a file lists; undefined when it cannot be read. */
  readonly valuesIn: (path: string) => Promise<readonly unknown[] | undefined>;
  readonly runScript: RunScript;
  readonly loadSkill: LoadSkill;
  readonly warn: (problem: string) => void;
  /** Returns the id of the delivery that has one of these keys. */
  readonly findDuplicate: (key: DedupeKey) => Promise<string | undefined>;
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
  /** The prompt, or the message, of a request that goes on. */
  readonly text?: string;
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
  readonly deliveryId: string;
  subject: WebhookSubject;
  bodyText: string | undefined;
  stop: WebhookAnswer | undefined;
  text: string | undefined;

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
    const { stages, deliveryId, subject, bodyText, stop, text } = this;
    return {
      stages,
      deliveryId,
      subject,
      ...(bodyText === undefined ? {} : { bodyText }),
      ...(stop ? { stop } : {}),
      ...(text === undefined ? {} : { text }),
    };
  }
}

type Step = (evaluation: Evaluation, ports: EvaluationPorts) => void | Promise<void>;

const parse: Step = (evaluation) => {
  const { headers, body } = evaluation.request;
  const parsed = parsePayload(body, headers);
  evaluation.bodyText = parsed.text;
  if ("problem" in parsed) {
    const [code, detail] = PAYLOAD_PROBLEMS[parsed.problem];
    return evaluation.stopped("parse", refuse(code), detail);
  }
  evaluation.subject = { payload: parsed.payload, event: eventTypeOf(headers, parsed.payload), headers };
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
  const passes = passesFilters(route.filters, evaluation.subject, {
    valuesIn: (path) => lists.get(path),
    warn: (problem) => warn(`${route.name}: ${problem}`),
  });
  if (passes) return evaluation.passed("filters");
  evaluation.stopped("filters", ignored({ reason: "filter", route: route.name }), "no match");
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
  evaluation.text = renderRoute(route, evaluation.subject);
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
