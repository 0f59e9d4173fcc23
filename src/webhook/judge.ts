import { ignored, refuse, type WebhookAnswer } from "./answer.ts";
import { deliveryIdOf, eventTypeOf } from "./event.ts";
import type { WebhookSubject } from "./field.ts";
import { passesFilters } from "./filter.ts";
import { parsePayload, type PayloadFlaw } from "./payload.ts";
import { renderPrompt } from "./prompt.ts";
import type { WebhookRoute } from "./route.ts";
import type { RunScript } from "./script.ts";
import type { StageVerdict } from "./stage.ts";
import type { LoadSkill } from "./skill.ts";
import { renderRoute } from "./template.ts";

/** A request that was believed, with its body read. */
export interface BelievedRequest {
  readonly route: WebhookRoute;
  readonly headers: { get(name: string): string | null };
  readonly body: Uint8Array;
  /** The delivery's name where the sender gave none. */
  readonly requestId: string;
}

export interface JudgePorts {
  /** The values that a file lists; undefined when it cannot be read. */
  readonly valuesIn: (path: string) => Promise<readonly unknown[] | undefined>;
  readonly runScript: RunScript;
  readonly loadSkill: LoadSkill;
  readonly warn: (flaw: string) => void;
  /** Whether a delivery of this id was taken within the hour. */
  readonly isKnown: (route: string, deliveryId: string) => Promise<boolean>;
}

/** What became of a request on its way to the agent. */
export interface Judged {
  readonly stages: readonly StageVerdict[];
  readonly deliveryId: string;
  readonly subject: WebhookSubject;
  /** What the sender is answered, when it goes no further. */
  readonly stop?: WebhookAnswer;
  /** The prompt, or the message, when it goes on. */
  readonly text?: string;
}

/**
 * The stages between the signature and the record, a step each, in the order of the interface. Nothing is written: a
 * rehearsal and a repetition go the same way.
 */
export async function judge(request: BelievedRequest, ports: JudgePorts): Promise<Judged> {
  const way = new Way(request);
  for (const step of [parse, known, event, filters, script, render]) {
    await step(way, ports);
    if (way.stop) break;
  }
  return way.judged();
}

/** Where a request stands. */
class Way {
  readonly request: BelievedRequest;
  readonly stages: StageVerdict[] = [];
  readonly deliveryId: string;
  subject: WebhookSubject;
  stop: WebhookAnswer | undefined;
  text: string | undefined;

  constructor(request: BelievedRequest) {
    this.request = request;
    this.deliveryId = deliveryIdOf(request.headers) ?? request.requestId;
    this.subject = { payload: undefined, event: "unknown", headers: request.headers };
  }

  passed(stage: StageVerdict["stage"], detail?: string): void {
    this.stages.push({ stage, verdict: "pass", ...(detail === undefined ? {} : { detail }) });
  }

  stopped(stage: StageVerdict["stage"], answer: WebhookAnswer, detail: string): void {
    this.stages.push({ stage, verdict: "stop", detail });
    this.stop = answer;
  }

  judged(): Judged {
    const { stages, deliveryId, subject, stop, text } = this;
    return {
      stages,
      deliveryId,
      subject,
      ...(stop ? { stop } : {}),
      ...(text === undefined ? {} : { text }),
    };
  }
}

type Step = (way: Way, ports: JudgePorts) => void | Promise<void>;

const parse: Step = (way) => {
  const { headers, body } = way.request;
  const parsed = parsePayload(body, headers);
  if ("flaw" in parsed) return way.stopped("parse", refuse(REFUSED[parsed.flaw]), TOLD[parsed.flaw]);
  way.subject = { payload: parsed.payload, event: eventTypeOf(headers, parsed.payload), headers };
  way.passed("parse");
};

/** Before the script: what a script does must not be done again by a sender that tries once more. */
const known: Step = async (way, ports) => {
  if (await ports.isKnown(way.request.route.name, way.deliveryId)) {
    const answer: WebhookAnswer = {
      status: 200,
      body: { status: "duplicate", delivery_id: way.deliveryId },
    };
    return way.stopped("known", answer, "taken within the last hour");
  }
  way.passed("known");
};

const event: Step = (way) => {
  const { events } = way.request.route;
  const { event: type } = way.subject;
  if (events.length > 0 && !events.includes(type)) {
    return way.stopped("events", ignored({ event: type }), `${type} is not among ${events.join(", ")}`);
  }
  way.passed("events", type);
};

const filters: Step = async (way, ports) => {
  const { route } = way.request;
  const lists = await listsOf(route.filters, ports);
  const passes = passesFilters(route.filters, way.subject, {
    valuesIn: (path) => lists.get(path),
    warn: (flaw) => ports.warn(`${route.name}: ${flaw}`),
  });
  if (!passes) return way.stopped("filters", ignored({ reason: "filter", route: route.name }), "no match");
  way.passed("filters");
};

const script: Step = async (way, ports) => {
  const { route } = way.request;
  if (route.script === undefined) return;
  const { deliveryId, subject } = way;
  const outcome = await ports.runScript(route.script, {
    payload: subject.payload,
    event: subject.event,
    deliveryId,
  });
  switch (outcome.status) {
    case "payload":
      way.subject = { ...subject, payload: outcome.payload };
      return way.passed("script", "it gave another payload");
    case "text":
      way.subject = { ...subject, payload: withText(subject.payload, outcome.text) };
      return way.passed("script", "it gave a text");
    case "ignore":
      return way.stopped("script", ignored({ reason: "script", route: route.name }), outcome.reason);
    case "failed": {
      const answer = route.retriesScript
        ? refuse("script_failed", {
            status: "error",
            reason: "script_failed",
            route: route.name,
            retryAfterSeconds: RETRY_SECONDS,
          })
        : ignored({ reason: "script", route: route.name });
      return way.stopped("script", answer, outcome.reason);
    }
  }
};

const render: Step = async (way, ports) => {
  const { route } = way.request;
  const skill = route.deliverOnly ? undefined : await ports.loadSkill(route.skills);
  way.text = route.deliverOnly ? renderRoute(route, way.subject) : renderPrompt(route, way.subject, skill);
  way.passed("render", skill && `with the skill ${skill.name}`);
};

const RETRY_SECONDS = 60;

const REFUSED = {
  malformed: "unparsable_body",
  too_deep: "unparsable_body",
  type: "unsupported_type",
  encoding: "unsupported_type",
} as const satisfies Readonly<Record<PayloadFlaw, string>>;

const TOLD: Readonly<Record<PayloadFlaw, string>> = {
  malformed: "the body is no JSON",
  too_deep: "the body is nested too deep",
  type: "the content type is neither JSON nor a form",
  encoding: "the body has a content encoding",
};

/** A payload that is no object has no room for a name beside it: it is found under `payload`. */
function withText(payload: unknown, text: string): unknown {
  const isObject = typeof payload === "object" && payload !== null && !Array.isArray(payload);
  return isObject ? { ...payload, script_output: text } : { payload, script_output: text };
}

/** The files that filters name are read before they are asked, so that asking needs nothing of the machine. */
async function listsOf(
  written: unknown,
  { valuesIn }: JudgePorts,
): Promise<ReadonlyMap<string, readonly unknown[]>> {
  const lists = new Map<string, readonly unknown[]>();
  for (const path of new Set(filesIn(written))) {
    const values = await valuesIn(path);
    if (values) lists.set(path, values);
  }
  return lists;
}

function filesIn(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(filesIn);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, each]) =>
    name === "in_file" && typeof each === "string" ? [each] : filesIn(each),
  );
}
