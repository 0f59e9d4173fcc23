import type { RunDelivery } from "../../agent/notify/run-trigger.ts";
import type { Prompt } from "../../agent/run/prompt.ts";
import { MAX_SESSION_NAME_LENGTH } from "../../agent/session/session.ts";
import { sha256 } from "../../base/digest.ts";
import { createId, createSessionId } from "../../base/ids.ts";
import { isOwnersAddress, resolveAddresses, type Homes } from "../../deliver/address.ts";
import { parseTarget } from "../../deliver/target.ts";
import type { Tx } from "../../store/store.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import { accepted, coalesced, type WebhookAnswer } from "./answer.ts";
import type { NewEvent } from "./coalesce.ts";
import { insertDelivery, type DeliveryFacts } from "../deliveries/deliveries.ts";
import type { Evaluated } from "./evaluate.ts";
import { cutText } from "./json-excerpt.ts";
import { KnownDelivery, takeName } from "./dedupe.ts";
import type { WebhookDeps } from "../deps.ts";
import type { WebhookRoute } from "../routes/route.ts";
import { lacksField, renderTemplate, renderTexts } from "./template.ts";
import { toolsetsOf } from "../routes/toolsets.ts";

export interface Admission extends DeliveryFacts {
  readonly evaluated: Evaluated & { readonly text: string };
  /** The signature itself, of a scheme that binds the time. */
  readonly once: string | undefined;
}

const MAX_TITLE_CHARACTERS = 100;

/**
 * Records a delivery, that its names are taken, and its run, in one transaction: once this resolves nothing is lost.
 * While too many runs of the route, or of all, are at work the run waits as it is recorded; an event that is taken
 * together with others waits for them. Undefined: the same delivery was taken before.
 *
 * ServiceError `server_draining`, `too_many_concurrent_runs` when too many wait already, and
 * `state_store_unavailable`: nothing is recorded, and the names are free.
 */
export async function admit(deps: WebhookDeps, admission: Admission): Promise<WebhookAnswer | undefined> {
  const { evaluated, once } = admission;
  const route = admission.request.route.name;
  const id = createId("dlv", deps.clock.now());
  const record = async (tx: Tx, run?: Pick<RunRow, "id" | "status">): Promise<void> => {
    await takeName(tx, deps.store, { route, deliveryId: evaluated.deliveryId, once, delivery: id });
    const status = run?.status === "running" ? "running" : "accepted";
    await insertDelivery(tx, { ...admission, id, status, ...(run ? { runId: run.id } : {}) });
  };
  const prompt = promptOf(deps, admission, id);
  const together = togetherOf(admission);
  const answer = { route, event: evaluated.subject.event, delivery_id: evaluated.deliveryId };
  try {
    if (together) {
      await deps.coalescer.put({ ...together, route, delivery: id, prompt, record });
      return coalesced(answer);
    }
    await deps.runs.submit({ ...prompt, alsoRecord: record });
    return accepted(answer);
  } catch (error) {
    if (error instanceof KnownDelivery) return undefined;
    throw error;
  }
}

/** How an event is taken together with others. Undefined: it is not, be it that its payload lacks a field of the key. */
function togetherOf({
  request,
  evaluated: { subject },
}: Admission): Pick<NewEvent, "key" | "windowMs" | "maxWaitMs"> | undefined {
  const { coalesce } = request.route;
  if (!coalesce || lacksField(coalesce.key, subject)) return undefined;
  // Routes of the file of subscriptions come without the defaults of the configuration.
  const { key, window_seconds: window = 30, max_wait_seconds: maxWait = 300 } = coalesce;
  return { key: renderTemplate(key, subject), windowMs: window * 1000, maxWaitMs: maxWait * 1000 };
}

/** What the agent is asked, in a session that is this delivery's alone and goes when its run is no longer kept. */
function promptOf(deps: WebhookDeps, { request, evaluated }: Admission, id: string): Prompt {
  const { route } = request;
  const extra = renderTexts(route.deliverExtra, evaluated.subject) as Readonly<Record<string, unknown>>;
  const { homes } = deps;
  const targets = resolveAddresses(route.deliver, { extra, homes });
  const delivery: RunDelivery = {
    ref: id,
    targets,
    failure: failureTargets(route, targets, homes),
    extra,
    suppressesSilence: route.suppressesSilence,
  };
  const max = route.maxConcurrent;
  return {
    address: {
      owner: deps.owner,
      // The key names the newest session of a delivery; the id makes this one new, also where the sender's id was used
      // an hour ago.
      id: createSessionId(deps.clock.now()),
      key: sessionKeyOf(route.name, evaluated.deliveryId),
    },
    seed: {
      source: "webhook",
      title: cutText(`${route.name}: ${evaluated.subject.event}`, MAX_TITLE_CHARACTERS),
      transient: true,
    },
    kind: "run",
    input: {
      prompt: [{ role: "user", text: evaluated.text }],
      settings: {},
      answerable: false,
      isDetached: true,
      startsAgain: true,
      toolsets: toolsetsOf(route, deps.toolsets(), (unknown) =>
        deps.log.warn("a webhook route names toolsets that are not offered", {
          route: route.name,
          toolsets: unknown.join(", "),
        }),
      ),
      slot: { group: `webhook:${route.name}`, ...(max === undefined ? {} : { max }) },
    },
    delivery: JSON.stringify(delivery),
  };
}

/** Code hosts show a comment to everybody, and would show one for each event of an outage. */
const PUBLIC_COMMENTS = "github_comment";

/** Who hears of a run that did not complete: why it did not is for whoever runs this service. */
function failureTargets(
  { onFailure }: WebhookRoute,
  targets: readonly string[],
  homes: Homes,
): RunDelivery["failure"] {
  if (onFailure === "silent") return [];
  const isTold = (target: string) =>
    onFailure === "notice" || parseTarget(target).platform !== PUBLIC_COMMENTS;
  return targets
    .filter(isTold)
    .map((target) => ({ target, says: isOwnersAddress(target, homes) ? "reason" : "notice" }));
}

/** `webhook:<route>:<delivery id>`, with a digest for an id that answers could not repeat in a header. */
export function sessionKeyOf(route: string, deliveryId: string): string {
  const key = `webhook:${route}:${deliveryId}`;
  const isPlain = key.length <= MAX_SESSION_NAME_LENGTH && PLAIN.test(deliveryId);
  return isPlain ? key : `webhook:${route}:sha256-${sha256(deliveryId)}`;
}

const PLAIN = /^[\u0020-\u007e]+$/;
