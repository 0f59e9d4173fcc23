/** Replays of deliveries in this process, behind the signature. */
import { ServiceError } from "../../base/errors.ts";
import { createId } from "../../base/text.ts";
import type { Tx } from "../../store/store.ts";
import type { WebhookDeps } from "../deps.ts";
import type { Delivery } from "../deliveries/deliveries.ts";
import { replayHeaders } from "../deliveries/replay.ts";
import type { WebhookRoute } from "../routes/route.ts";
import { evaluate, type StageResult, type VerifiedRequest } from "./evaluate.ts";
import { take } from "./receive.ts";

export interface ReplayOptions {
  /** Name of the key that replays. */
  readonly by: string;
  /** Records more in the transaction that records the new delivery. */
  readonly alsoRecord: (tx: Tx, id: string) => Promise<void>;
}

/**
 * Handles a delivery again as its route is now, as a new delivery with an id of its own, and resolves to that id. The rate
 * limit of the route is for senders and does not apply. ServiceError `delivery_not_replayable`, `server_draining`, and
 * those of submitting a run.
 */
export async function replayDelivery(
  deps: WebhookDeps,
  delivery: Delivery,
  { by, alsoRecord }: ReplayOptions,
): Promise<string> {
  if (deps.runs.draining) throw new ServiceError("server_draining", "The server is shutting down.");
  const route = await routeOf(deps, delivery);
  const body = bodyOf(delivery);
  const id = createId("dlv", deps.clock.now());
  const requestId = createId("req");
  const request: VerifiedRequest = {
    route,
    headers: new Headers({ ...replayHeaders(delivery), "x-request-id": requestId }),
    body,
    requestId,
    replay: { id, of: delivery.id, by, alsoRecord: (tx) => alsoRecord(tx, id) },
  };
  const evaluated = await evaluate(request, deps.ports);
  const stages = [trustedStage(`replayed by ${by}`), ...evaluated.stages];
  if (evaluated.stop) await deps.deliveries.recordStopped({ request, evaluated, stages });
  else await take(deps, { request, evaluated, stages });
  return id;
}

/** Checks what a replay needs: the route and the body. ServiceError `delivery_not_replayable`. */
export async function checkReplay(deps: WebhookDeps, delivery: Delivery): Promise<void> {
  await routeOf(deps, delivery);
  bodyOf(delivery);
}

/** Returns the stage of a request that an authenticated caller makes instead of a sender. */
export function trustedStage(detail: string): StageResult {
  return { stage: "signature", result: "pass", detail };
}

/** Returns the body of a delivery. ServiceError `delivery_not_replayable` when it was not kept. */
export function bodyOf({ id, payload, isUnverified }: Delivery): Uint8Array {
  if (payload !== undefined) return new TextEncoder().encode(payload);
  if (isUnverified) {
    const what = `${id} cannot be replayed: its sender was not verified, so its body was not kept. Have the sender send it again.`;
    throw new ServiceError("delivery_not_replayable", what, { details: { reason: "not_verified" } });
  }
  const what = `The body of ${id} was not kept: it was binary or too long. It cannot be replayed.`;
  throw new ServiceError("delivery_not_replayable", what, { details: { reason: "body_not_kept" } });
}

/** A route of another owner that took the name must not run it. */
async function routeOf({ routes }: WebhookDeps, { id, route: name, owner }: Delivery): Promise<WebhookRoute> {
  const route = await routes.find(name);
  if (route?.owner === owner && route.isEnabled) return route;
  const reason = route?.owner === owner ? "route_disabled" : "route_missing";
  const state = reason === "route_disabled" ? "is disabled. Enable it" : "does not exist any more. Create it";
  const what = `${id} cannot be replayed: its route ${JSON.stringify(name)} ${state} first.`;
  throw new ServiceError("delivery_not_replayable", what, { details: { reason } });
}
