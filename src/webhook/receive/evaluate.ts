import { isRecord } from "../../base/json/schema.ts";
import { isExactNumber } from "../../base/json/exact-json.ts";
import { duplicate, ignored, refuse, type WebhookAnswer } from "./answer.ts";
import { deliveryIdOf, eventTypeOf } from "./event.ts";
import type { WebhookSubject } from "./field.ts";
import { filterFiles, passesFilters } from "./filter.ts";
import type { DeliveryName } from "./dedupe.ts";
import { parsePayload, type PayloadProblem } from "./payload.ts";
import { renderPrompt } from "./prompt.ts";
import type { WebhookRoute } from "../routes/route.ts";
import type { RunScript } from "./script.ts";
import type { LoadSkill } from "./skill.ts";
import type { StageName, StageResult } from "./stage.ts";
import { renderRoute } from "./template.ts";

/** A request that was believed, with its body read. */
export interface VerifiedRequest {
  readonly route: WebhookRoute;
  readonly headers: Headers;
  readonly body: Uint8Array;
  /** The delivery's name where the sender gave none. */
  readonly requestId: string;
  /** The signature itself, of a scheme that binds the time. */
  readonly once?: string | undefined;
}

export interface EvaluationPorts {
  /** The values that a file lists; undefined when it cannot be read. */
  readonly valuesIn: (path: string) => Promise<readonly unknown[] | undefined>;
  readonly runScript: RunScript;
  readonly loadSkill: LoadSkill;
  readonly warn: (problem: string) => void;
  /** The id of the delivery that was taken under one of these names. */
  readonly knownAs: (name: DeliveryName) => Promise<string | undefined>;
}

/** What became of a request on its way to the agent. */
export interface Evaluated {
  readonly stages: readonly StageResult[];
  readonly deliveryId: string;
  readonly subject: WebhookSubject;
  /** The body as text; absent where it is no UTF-8, or was not looked at. */
  readonly bodyText?: string;
  /** What the sender is answered, when it goes no further. */
  readonly stop?: WebhookAnswer;
  /** The prompt, or the message, when it goes on. */
  readonly text?: string;
}

/**
 * The stages between the rate and the record, a step each, in the order of the interface. Nothing is written: a rehearsal
 * and a repetition go the same way. `upTo`: the last stage that is gone through.
 */
export async function evaluate(
  request: VerifiedRequest,
  ports: EvaluationPorts,
  { upTo = "render" }: { readonly upTo?: StageName } = {},
): Promise<Evaluated> {
  const way = new Way(request);
  for (const [stage, step] of STEPS) {
    // Most steps are done at once: waiting for those would cost a turn of the loop each.
    const waiting = step(way, ports);
    if (waiting) await waiting;
    if (way.stop || stage === upTo) break;
  }
  return way.evaluated();
}

/** What is known of a request that was stopped before it was looked into. */
export function unevaluated(request: VerifiedRequest, stop: WebhookAnswer): Evaluated {
  const way = new Way(request);
  way.stop = stop;
  return way.evaluated();
}

/** Where a request stands. */
class Way {
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
    this.stages.push({ stage, verdict: "pass", ...(detail === undefined ? {} : { detail }) });
  }

  stopped(stage: StageName, answer: WebhookAnswer, detail: string): void {
    this.stages.push({ stage, verdict: "stop", detail });
    this.stop = answer;
  }

  evaluated(): Evaluated {
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

type Step = (way: Way, ports: EvaluationPorts) => void | Promise<void>;

const parse: Step = (way) => {
  const { headers, body } = way.request;
  const parsed = parsePayload(body, headers);
  way.bodyText = parsed.text;
  if ("problem" in parsed) return way.stopped("parse", refuse(REFUSED[parsed.problem]), TOLD[parsed.problem]);
  way.subject = { payload: parsed.payload, event: eventTypeOf(headers, parsed.payload), headers };
  way.passed("parse");
};

/** Before the script: what a script does must not be done again by a sender that tries once more. */
const known: Step = async (way, ports) => {
  const { route, once } = way.request;
  const first = await ports.knownAs({ route: route.name, deliveryId: way.deliveryId, once });
  if (first === undefined) way.passed("known");
  else way.stopped("known", duplicate(first), `taken before, as ${first}`);
};

const events: Step = (way) => {
  const { events: wanted } = way.request.route;
  const { event } = way.subject;
  if (wanted.length === 0 || wanted.includes(event)) way.passed("events", event);
  else way.stopped("events", ignored({ event }), `${event} is not among ${wanted.join(", ")}`);
};

const filters: Step = (way, ports) => {
  const { route } = way.request;
  const files = filterFiles(route.filters);
  if (files.length > 0) return listsOf(files, ports).then((lists) => filter(way, ports, lists));
  return filter(way, ports, new Map());
};

function filter(way: Way, { warn }: EvaluationPorts, lists: ReadonlyMap<string, readonly unknown[]>): void {
  const { route } = way.request;
  const passes = passesFilters(route.filters, way.subject, {
    valuesIn: (path) => lists.get(path),
    warn: (problem) => warn(`${route.name}: ${problem}`),
  });
  if (passes) return way.passed("filters");
  way.stopped("filters", ignored({ reason: "filter", route: route.name }), "no match");
}

const script: Step = (way, ports) =>
  way.request.route.script === undefined ? undefined : runScript(way, ports, way.request.route.script);

async function runScript(way: Way, ports: EvaluationPorts, path: string): Promise<void> {
  const { route } = way.request;
  const { deliveryId, subject } = way;
  const { payload, event } = subject;
  const outcome = await ports.runScript(path, { payload, event, deliveryId });
  const answer = ignored({ reason: "script", route: route.name });
  switch (outcome.status) {
    case "payload":
      way.subject = { ...subject, payload: outcome.payload };
      return way.passed("script", "it gave another payload");
    case "text":
      way.subject = { ...subject, payload: withText(payload, outcome.text) };
      return way.passed("script", "it gave a text");
    case "ignore":
      return way.stopped("script", answer, outcome.reason);
    case "failed":
      return way.stopped("script", route.retriesScript ? tryAgain(route) : answer, outcome.reason);
  }
}

const render: Step = (way, ports) => {
  const { route } = way.request;
  if (!route.deliverOnly) return renderForAgent(way, ports);
  way.text = renderRoute(route, way.subject);
  way.passed("render");
};

async function renderForAgent(way: Way, { loadSkill }: EvaluationPorts): Promise<void> {
  const { route } = way.request;
  const skill = route.skills.length > 0 ? await loadSkill(route.skills) : undefined;
  way.text = renderPrompt(route, way.subject, skill);
  way.passed("render", skill && `with the skill ${skill.name}`);
}

const STEPS: readonly (readonly [StageName, Step])[] = Object.entries({
  parse,
  known,
  events,
  filters,
  script,
  render,
} satisfies Partial<Record<StageName, Step>>) as [StageName, Step][];

const RETRY_SECONDS = 60;

function tryAgain({ name }: WebhookRoute): WebhookAnswer {
  return refuse("script_failed", {
    status: "error",
    reason: "script_failed",
    route: name,
    retryAfterSeconds: RETRY_SECONDS,
  });
}

const REFUSED = {
  malformed: "unparsable_body",
  too_deep: "unparsable_body",
  too_many_fields: "unparsable_body",
  type: "unsupported_type",
  encoding: "unsupported_type",
} as const satisfies Readonly<Record<PayloadProblem, string>>;

const TOLD: Readonly<Record<PayloadProblem, string>> = {
  malformed: "the body is no JSON",
  too_deep: "the body is nested too deep",
  too_many_fields: "the form has too many fields",
  type: "the content type is neither JSON nor a form",
  encoding: "the body has a content encoding",
};

/** A payload that is no object has no room for a name beside it: it is found under `payload`. */
function withText(payload: unknown, text: string): unknown {
  return isRecord(payload) && !isExactNumber(payload)
    ? { ...payload, script_output: text }
    : { payload, script_output: text };
}

/** The files that filters name are read before they are asked, so that asking needs nothing of the machine. */
async function listsOf(
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
