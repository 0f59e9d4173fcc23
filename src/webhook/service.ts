/** Webhooks as people manage them, whether or not this process receives any. */
import type { Agent } from "../agent/agent.ts";
import { ServiceError } from "../base/errors.ts";
import { createId } from "../base/text.ts";
import { homesOf, type Homes } from "../deliver/address.ts";
import type { Targets } from "../deliver/target.ts";
import type { Delivery } from "./deliveries/deliveries.ts";
import {
  defaultEventOf,
  dryRun,
  exampleBody,
  replayHeaders,
  testHeaders,
  type DryRun,
} from "./deliveries/replay.ts";
import type { WebhookDeps } from "./deps.ts";
import { toolsetsOf } from "./receive/admit.ts";
import type { StageName, VerifiedRequest, WebhookAnswer } from "./receive/evaluate.ts";
import { accepted, coalesced, delivered } from "./receive/evaluate.ts";
import { filterFiles } from "./receive/filter.ts";
import type { PortOptions } from "./receive/ports.ts";
import { bodyOf, checkReplay, replayDelivery, trustedStage, type ReplayOptions } from "./receive/replay.ts";
import { findProblems, toolsetNames } from "./receiver.ts";
import {
  receiverUrl,
  routeDefaults,
  routeUrl,
  webhookSettings,
  type RouteDefaults,
  type WebhookRoute,
  type WebhookSettings,
} from "./routes/route.ts";
import { RouteService, shownSecrets, type ManagedRoute, type ShownSecret } from "./routes/service.ts";
import { subscriptionsPath } from "./routes/subscriptions.ts";

/** The receiver of this process. */
export interface ActiveReceiver {
  readonly deps: WebhookDeps;
  /** Its address; undefined while it cannot listen. */
  readonly url: string | undefined;
}

interface WebhookServiceOptions extends Pick<PortOptions, "config" | "env" | "paths" | "skills"> {
  readonly agent: Agent;
  readonly targets: Targets;
  /** Absent: the receiver is off. */
  readonly receiver?: ActiveReceiver | undefined;
}

/** A request that is run through the stages without storing or sending anything. */
export interface Rehearsal {
  readonly route: WebhookRoute;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** Who wants it, for the stage of the signature. */
  readonly why: string;
  readonly upTo?: StageName | undefined;
  readonly skipsScript?: boolean | undefined;
}

/** A request to rehearse as its sender could send it. */
export interface TestRequest extends Pick<Rehearsal, "headers" | "why" | "skipsScript"> {
  /** JSON. */
  readonly payload?: unknown;
  readonly event?: string | undefined;
}

export interface RehearsalResult extends DryRun {
  /** What the sender would get. Undefined: not all stages ran. */
  readonly answer?: WebhookAnswer;
  /** Toolsets of the run. */
  readonly toolsets: readonly string[];
}

export class WebhookService {
  readonly routes: RouteService;
  readonly #defaults: RouteDefaults;
  readonly #options: WebhookServiceOptions;
  readonly #settings: WebhookSettings;
  readonly #homes: Homes;

  constructor(options: WebhookServiceOptions) {
    const { config, env, paths, agent, targets } = options;
    const { store, clock } = agent.deps;
    this.#options = options;
    this.#settings = webhookSettings(config);
    this.#homes = homesOf(targets);
    this.#defaults = routeDefaults(this.#settings, { env });
    this.routes = new RouteService({
      settings: this.#settings,
      defaults: this.#defaults,
      path: subscriptionsPath(paths.agentHome),
      store,
      clock,
      platformProblems: (names) => findProblems(names, { config, env, homes: this.#homes }),
      apply: async () => options.receiver?.deps.routes.refresh(),
    });
  }

  /**
   * Returns the address of a route from this machine, without a secret in it. Undefined: the receiver is off, or has a
   * random port in another process.
   */
  urlOf(name: string): string | undefined {
    if (!this.#settings.isEnabled) return undefined;
    const { receiver } = this.#options;
    const base = this.#settings.port === 0 ? receiver?.url : receiverUrl(this.#settings);
    return base === undefined ? undefined : routeUrl(base, name);
  }

  /** Returns whether filters, as they are written, read files of this machine. */
  readsFiles(filters: unknown): boolean {
    return filterFiles(filters).length > 0;
  }

  /** Returns what may be shown of the secrets that a route accepts now. */
  secretsOf(route: ManagedRoute): readonly ShownSecret[] {
    return shownSecrets(route, { defaults: this.#defaults, nowMs: this.#options.agent.deps.clock.now() });
  }

  /** Replays a delivery. Resolves to the id of the new one. ServiceError `receiver_disabled`; see {@link replayDelivery}. */
  async replay(delivery: Delivery, options: ReplayOptions): Promise<string> {
    return replayDelivery(this.requireReceiver().deps, delivery, options);
  }

  /** Throws what {@link replay} would throw for this delivery, as far as that is known before. */
  async checkReplay(delivery: Delivery): Promise<void> {
    await checkReplay(this.requireReceiver().deps, delivery);
  }

  /** Returns the receiver. ServiceError `receiver_disabled`. */
  requireReceiver(): ActiveReceiver {
    const { receiver } = this.#options;
    if (receiver) return receiver;
    const what = "The webhook receiver is off. Set platforms.webhook.enabled to true and restart the server.";
    throw new ServiceError("receiver_disabled", what);
  }

  /** Rehearses the replay of a delivery at a route. ServiceError `delivery_not_replayable`. */
  async rehearseReplay(
    delivery: Delivery,
    request: Omit<Rehearsal, "headers" | "body">,
  ): Promise<RehearsalResult> {
    return this.rehearse({ ...request, headers: replayHeaders(delivery), body: bodyOf(delivery) });
  }

  /** Rehearses a request of a test, by default a small example of the first event that the route accepts. */
  async test(
    route: WebhookRoute,
    { payload, event, headers, ...request }: TestRequest,
  ): Promise<RehearsalResult> {
    const defaultEvent = defaultEventOf(route);
    const body =
      payload === undefined
        ? exampleBody(event ?? defaultEvent)
        : new TextEncoder().encode(JSON.stringify(payload));
    return this.rehearse({ ...request, route, headers: testHeaders(headers, { event, defaultEvent }), body });
  }

  /** Runs a request through the stages, and through the script of its route, without storing or sending anything. */
  async rehearse({ route, headers, body, why, upTo, skipsScript }: Rehearsal): Promise<RehearsalResult> {
    const { config, env, paths, skills, agent } = this.#options;
    const { log } = agent.deps;
    const requestId = createId("req");
    const request: VerifiedRequest = {
      route: skipsScript ? { ...route, script: undefined } : route,
      headers: new Headers({ ...headers, "x-request-id": requestId }),
      body,
      requestId,
    };
    const result = await dryRun(request, { config, env, paths, skills, log, homes: this.#homes, upTo });
    const answer = result.stop ?? (result.delivery && answerOf(route, result));
    const toolsets = () => toolsetNames(config, agent);
    return {
      ...result,
      stages: [trustedStage(why), ...result.stages],
      toolsets: route.deliverOnly ? [] : toolsetsOf(route, { toolsets, log }),
      ...(answer ? { answer } : {}),
    };
  }
}

/** Returns the answer to a sender whose request passes all stages, and whose message arrives. */
function answerOf(
  { name: route, deliverOnly, coalesce }: WebhookRoute,
  { subject, deliveryId, delivery }: DryRun,
): WebhookAnswer {
  const body = { route, event: subject.event, delivery_id: deliveryId };
  if (!deliverOnly) return coalesce ? coalesced(body) : accepted(body);
  const target = delivery?.targets.join(",") ?? "";
  return delivered({ route, target, delivery_id: deliveryId });
}
