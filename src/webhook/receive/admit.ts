import { headOf } from "../../base/text.ts";
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
import { insertDelivery, type EvaluatedRequest } from "../deliveries/deliveries.ts";
import type { Evaluated } from "./evaluate.ts";
import { DuplicateDelivery, recordKey } from "./dedupe.ts";
import type { WebhookDeps } from "../deps.ts";
import type { WebhookRoute } from "../routes/route.ts";
import { hasMissingField, renderTemplate, renderTexts } from "./template.ts";

/** A request that passed every stage. */
export interface Admission extends EvaluatedRequest {
  readonly evaluated: Evaluated & { readonly text: string };
}

const MAX_TITLE_CHARACTERS = 100;

/**
 * Records a delivery, its dedupe key and its run in one transaction: once this resolves, nothing is lost. A run over a
 * concurrency limit waits in the store, and so does an event that is coalesced. Undefined: the delivery is a duplicate.
 *
 * ServiceError `server_draining`, `too_many_concurrent_runs` when too many runs wait, and `state_store_unavailable`:
 * nothing is recorded.
 */
export async function admit(deps: WebhookDeps, admission: Admission): Promise<WebhookAnswer | undefined> {
  const { evaluated, request } = admission;
  const route = request.route.name;
  const { deliveryId } = evaluated;
  const id = createId("dlv", deps.clock.now());
  const record = async (tx: Tx, run?: Pick<RunRow, "id" | "status">): Promise<void> => {
    await recordKey(tx, deps.store, { route, deliveryId, nonce: request.nonce, delivery: id });
    const status = run?.status === "running" ? "running" : "accepted";
    await insertDelivery(tx, { ...admission, id, status, ...(run ? { runId: run.id } : {}) });
  };
  const prompt = promptOf(deps, admission, id);
  const coalescing = coalescingOf(admission);
  const answer = { route, event: evaluated.subject.event, delivery_id: deliveryId };
  try {
    if (coalescing) {
      await deps.coalescer.put({ ...coalescing, route, delivery: id, prompt, record });
      return coalesced(answer);
    }
    await deps.runs.submit({ ...prompt, alsoRecord: record });
    return accepted(answer);
  } catch (error) {
    if (error instanceof DuplicateDelivery) return undefined;
    throw error;
  }
}

/** Returns how to coalesce an event. Undefined: the route does not, or the payload has no value for the key. */
function coalescingOf({
  request,
  evaluated: { subject },
}: Admission): Pick<NewEvent, "key" | "windowMs" | "maxWaitMs"> | undefined {
  const { coalesce } = request.route;
  if (!coalesce || hasMissingField(coalesce.key, subject)) return undefined;
  // Subscriptions do not get the defaults of the configuration.
  const { key, window_seconds: window = 30, max_wait_seconds: maxWait = 300 } = coalesce;
  return { key: renderTemplate(key, subject), windowMs: window * 1000, maxWaitMs: maxWait * 1000 };
}

/** Returns the prompt of the run. Each delivery has a session of its own, which is deleted with its run. */
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
      // The key names the newest session of a delivery id. The session id is new even when the sender reuses its id.
      id: createSessionId(deps.clock.now()),
      key: sessionKeyOf(route.name, evaluated.deliveryId),
    },
    seed: {
      source: "webhook",
      title: headOf(`${route.name}: ${evaluated.subject.event}`, MAX_TITLE_CHARACTERS),
      transient: true,
    },
    kind: "run",
    input: {
      prompt: [{ role: "user", text: evaluated.text }],
      settings: {},
      answerable: false,
      isDetached: true,
      startsAgain: true,
      toolsets: toolsetsOf(route, deps),
      slot: { group: `webhook:${route.name}`, ...(max === undefined ? {} : { max }) },
    },
    delivery: JSON.stringify(delivery),
  };
}

/** Everyone can read the comments of a code host, and an outage would post one for each event. */
const PUBLIC_COMMENTS = "github_comment";

/** Returns who hears that a run did not complete. Only the owner's addresses get the reason. */
function failureTargets(
  { onFailure }: WebhookRoute,
  targets: readonly string[],
  homes: Homes,
): RunDelivery["failure"] {
  if (onFailure === "silent") return [];
  const isNotified = (target: string) =>
    onFailure === "notice" || parseTarget(target).platform !== PUBLIC_COMMENTS;
  return targets
    .filter(isNotified)
    .map((target) => ({ target, says: isOwnersAddress(target, homes) ? "reason" : "notice" }));
}

/** Returns `webhook:<route>:<delivery id>`, with a digest in place of an id that a header could not repeat. */
function sessionKeyOf(route: string, deliveryId: string): string {
  const key = `webhook:${route}:${deliveryId}`;
  const isPrintable = key.length <= MAX_SESSION_NAME_LENGTH && PRINTABLE.test(deliveryId);
  return isPrintable ? key : `webhook:${route}:sha256-${sha256(deliveryId)}`;
}

const PRINTABLE = /^[\u0020-\u007e]+$/;

/** Read access to the web and to pictures: nothing that changes, runs or remembers anything. */
const DEFAULT_TOOLSETS = ["web", "vision", "clarify"];

/** Returns the toolsets that the route names, without those that do not exist; by default the narrow ones. */
function toolsetsOf(route: WebhookRoute, { toolsets, log }: WebhookDeps): readonly string[] {
  if (route.toolsets === undefined) return DEFAULT_TOOLSETS;
  const offered = toolsets();
  const unknown = route.toolsets.filter((name) => !offered.includes(name));
  if (unknown.length > 0)
    log.warn("a webhook route names unknown toolsets", { route: route.name, toolsets: unknown.join(", ") });
  return route.toolsets.filter((name) => offered.includes(name));
}
