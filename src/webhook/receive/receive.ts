/** POST /webhooks/{route}: reads a request, verifies it, runs the stages and answers. */
import { H3, type H3Event, type HTTPError } from "h3";
import { FastResponse } from "srvx";
import { operations, type OperationId, type Operations } from "../../../generated/webhook/server.gen.ts";
import { toServiceError } from "../../base/errors.ts";
import { createId } from "../../base/text.ts";
import type { LogFields, Log } from "../../base/observe.ts";
import { readBody } from "../../base/net/request.ts";
import {
  refuse,
  type AnswerOf,
  type Refused,
  type WebhookAnswer,
  duplicate,
  evaluate,
  ignored,
  unevaluated,
  type Evaluated,
  type StageName,
  type StageResult,
  type VerifiedRequest,
} from "./evaluate.ts";
import type { WebhookDeps } from "../deps.ts";
import type { Clock } from "../../base/time.ts";
import { RateLimiter, type RateRefusal } from "../../base/time.ts";
import { admit, deliverDirect } from "./admit.ts";
import type { EvaluatedRequest } from "../deliveries/deliveries.ts";
import { validSecrets, type WebhookRoute } from "../routes/route.ts";
import { answerGet, answersGet, verificationTokenOf } from "./handshake.ts";
import { describeRefusal, explainRefusal, verifySignature } from "./signature.ts";

/** One handler for each operation of the spec: a new operation, path parameter or status is a compile error. */
type Handlers = {
  readonly [K in OperationId]: (event: H3Event, path: PathOf<K>) => AnswerOf<K> | Promise<AnswerOf<K>>;
};

type PathOf<K extends OperationId> = Operations[K]["request"] extends { readonly path: infer Path }
  ? Path
  : undefined;

type Handler = (event: H3Event, path: unknown) => Answer | Promise<Answer>;
type Answer = AnswerOf<OperationId>;

/** Returns the receiver as an h3 app that serves the operations of specs/webhook.openapi.yaml. */
export function createWebhookApp(deps: WebhookDeps): H3 {
  const log = new ReceiverLog(deps);
  const answer = (event: H3Event, given: Answer): Response => {
    if (isRefused(given)) log.refused(() => refusalFields(event, given));
    return respond(event, given);
  };
  const app = new H3({
    silent: true,
    onError: (error, event) => answer(event, outsideAnswer(deps, event, error)),
  });
  const handlers: Handlers = {
    getHealth: () => ({ status: 200, body: { status: "ok", platform: "webhook" } }),
    verifyWebhook: (event, { route_name: name }) => verifyAt(deps, event, name),
    receiveWebhook: (event, { route_name: name }) => measured(deps, { event, name, log }),
    receiveWebhookAtSecretPath: (event, { route_name: name, path_secret: secret }) =>
      measured(deps, { event, name, log, pathSecret: decoded(secret) }),
  };
  for (const [route, methods] of operationsByRoute()) {
    app.on("", route.replace(/\{([^}]+)\}/g, ":$1"), async (event) => {
      const id = methods.get(event.req.method);
      if (id === undefined) return answer(event, notAllowed(allowedIn(methods)));
      return answer(event, await (handlers[id] as Handler)(event, event.context.params));
    });
  }
  app.on("", "/**", (event) => answer(event, unknownPath(event)));
  return app;
}

/** GET is for the few routes whose service verifies the URL by it: the others are not to seem to have it. */
function allowedIn(methods: ReadonlyMap<string, OperationId>): readonly string[] {
  return [...methods].flatMap(([method, id]) => (id === "verifyWebhook" ? [] : [method]));
}

/** Returns the operation of each method of each route. */
function operationsByRoute(): ReadonlyMap<string, ReadonlyMap<string, OperationId>> {
  const routes = new Map<string, Map<string, OperationId>>();
  for (const id of Object.keys(operations) as OperationId[]) {
    const { route, method } = operations[id];
    const methods = routes.get(route) ?? new Map<string, OperationId>();
    for (const name of method === "GET" ? ["GET", "HEAD"] : [method]) methods.set(name, id);
    routes.set(route, methods);
  }
  return routes;
}

interface ArrivedRequest {
  readonly event: H3Event;
  /** Name of the route. */
  readonly name: string;
  readonly pathSecret?: string;
  readonly log: ReceiverLog;
}

async function measured(deps: WebhookDeps, arrived: ArrivedRequest): Promise<WebhookAnswer> {
  const startMs = performance.now();
  const given = await receiveAt(deps, arrived);
  const outcome = "code" in given.body ? given.body.code : (statusIn(given) ?? "verified");
  deps.metrics?.answered(outcome, (performance.now() - startMs) / 1000);
  return given;
}

/** Answers the GET request with which a service verifies the URL of a route. To others it does not reveal the routes. */
async function verifyAt(
  deps: WebhookDeps,
  { url }: H3Event,
  name: string,
): Promise<AnswerOf<"verifyWebhook">> {
  const route = await deps.routes.find(name);
  if (!route?.isEnabled || !answersGet(route)) return notAllowed(["POST"]);
  const answer = answerGet(route, url.searchParams);
  if ("refused" in answer) return { ...refuse(answer.refused), why: "verification request" };
  return { status: 200, raw: answer.challenge, contentType: "text/plain" };
}

/** Finds the route and reads the body; the pipeline does the rest. */
async function receiveAt(
  deps: WebhookDeps,
  { event, name, log, pathSecret }: ArrivedRequest,
): Promise<WebhookAnswer> {
  if (deps.runs.draining) return refuse("draining", { retryAfterSeconds: 1 });
  try {
    const route = await deps.routes.find(name);
    if (!route || (pathSecret !== undefined && route.auth !== "path")) return unknownRoute(name);
    const { headers } = event.req;
    const request = { route, headers, pathSecret, requestId: requestIdOf(event) };
    if (!route.isEnabled) {
      const detail = "The route is disabled. Enable it, and have the sender send the event again.";
      return turnAway(deps, request, refuse("route_disabled", { route: route.name }), ["receive", detail]);
    }
    const body = await bodyOf(deps, event, request);
    if (!(body instanceof Uint8Array)) return body;
    const answer = await receive(deps, { ...request, body }, log);
    return answer.status === 202 && wants200(route, headers) ? { ...answer, status: 200 } : answer;
  } catch (thrown) {
    return failure(deps, event, thrown);
  }
}

/** Returns the body of a request, or the answer when it cannot be read. */
async function bodyOf(
  deps: WebhookDeps,
  event: H3Event,
  request: Omit<UnverifiedRequest, "body">,
): Promise<Uint8Array | Refused> {
  try {
    return await readBody(event, {
      maxBytes: deps.maxBodyBytes,
      timeoutMs: deps.bodyTimeoutMs,
      clock: deps.clock,
      settings: { maxBytes: "limits.max_body_bytes", timeoutMs: "limits.body_timeout_seconds" },
    });
  } catch (thrown) {
    const answer = failure(deps, event, thrown);
    if (answer.status >= 500) return answer;
    return turnAway(deps, request, answer, ["receive", toServiceError(thrown).message]);
  }
}

/** Records a request whose sender was not verified for the owner of the route. Its answer does not wait for that. */
function turnAway(
  deps: WebhookDeps,
  unverified: Omit<UnverifiedRequest, "body">,
  answer: Refused,
  [stage, detail]: readonly [StageName, string],
): Refused {
  const request: VerifiedRequest = { ...unverified, body: new Uint8Array() };
  const stages: readonly StageResult[] = [{ stage, result: "stop", detail }];
  const evaluated = unevaluated(request, answer);
  void deps.deliveries.recordUnverified({ request, evaluated, stages }, deps.clock.now());
  return answer;
}

/** Refuses a path without an operation: one below `/webhooks/`, or any other. */
function unknownPath({ url }: H3Event): Refused {
  const [, name] = /^\/webhooks\/(.*)$/.exec(url.pathname) ?? [];
  return name === undefined ? refuse("not_found") : unknownRoute(name);
}

/** Linear sends an event again, up to three times, unless the status is 200. */
function wants200({ sender }: WebhookRoute, headers: Headers): boolean {
  return sender === undefined ? headers.get("linear-delivery") !== null : sender.wants200 === true;
}

function statusIn({ body }: WebhookAnswer): string | undefined {
  return "status" in body ? body.status : undefined;
}

function isRefused(answer: Answer): answer is Refused {
  return "body" in answer && "code" in answer.body;
}

/** A secret that cannot be decoded is wrong as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const MAX_SHOWN_NAME = 128;

function unknownRoute(name: string): Refused {
  return refuse("unknown_route", { route: name.slice(0, MAX_SHOWN_NAME) });
}

function notAllowed(methods: readonly string[]): Refused {
  return { ...refuse("method_not_allowed"), headers: { allow: methods.join(", ") } };
}

function failure(deps: WebhookDeps, event: H3Event, thrown: unknown): Refused {
  const error = toServiceError(thrown);
  switch (error.code) {
    case "body_too_large":
      return refuse("body_too_large");
    case "request_timeout":
      return refuse("body_timeout");
    case "invalid_request":
      return refuse("bad_request");
    case "server_draining":
      return refuse("draining", { retryAfterSeconds: 1 });
    case "state_store_unavailable":
    case "too_many_concurrent_runs":
    case "queue_full":
      return { ...refuse("store_unavailable", { retryAfterSeconds: 5 }), why: error.code };
    default:
      deps.log.error("cannot receive a webhook", { request: requestIdOf(event), error: thrown });
      return refuse("internal");
  }
}

/** Answers what fails before a handler is called: malformed paths, and bugs. */
function outsideAnswer(deps: WebhookDeps, event: H3Event, error: HTTPError): Refused {
  return error.status === 400 ? refuse("bad_request") : failure(deps, event, error.cause ?? error);
}

function refusalFields(event: H3Event, { body, why }: Refused): LogFields {
  // The query may hold secrets, and so may what follows the name of a route.
  const path = event.url.pathname.replace(/^(\/webhooks\/[^/]*\/).+$/, "$1...").slice(0, MAX_SHOWN_NAME);
  const { code } = body;
  return { request: requestIdOf(event), path, code, ...(why === undefined ? {} : { why }) };
}

function respond(event: H3Event, given: Answer): Response {
  const id = requestIdOf(event);
  const { status, headers } = given;
  const shown = isRefused(given)
    ? { ...given.body, request_id: id }
    : "body" in given
      ? given.body
      : undefined;
  const isRaw = "raw" in given;
  return new FastResponse(isRaw ? String(given.raw) : JSON.stringify(shown), {
    status,
    headers: {
      "content-type": isRaw ? given.contentType : "application/json",
      "x-request-id": id,
      // A sender's text must not pass for a page.
      ...(isRaw ? { "x-content-type-options": "nosniff" } : {}),
      // The rest of a body that came too late must not pass for the next request.
      ...(status === 408 ? { connection: "close" } : {}),
      ...headers,
    },
  });
}

const createdIds = new WeakMap<H3Event, string>();
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** Returns the sender's request id when a header can repeat it, else one of ours. */
function requestIdOf(event: H3Event): string {
  const given = event.req.headers.get("x-request-id");
  if (given !== null && REQUEST_ID.test(given)) return given;
  const id = createdIds.get(event) ?? createId("req");
  createdIds.set(event, id);
  return id;
}

/** A request whose body is read and whose signature is not checked yet. */
export type UnverifiedRequest = Omit<VerifiedRequest, "nonce">;

/** Verifies, evaluates and admits a request. Rejects when it cannot be recorded: then the sender must try again. */
async function receive(
  deps: WebhookDeps,
  unverified: UnverifiedRequest,
  log: ReceiverLog,
): Promise<WebhookAnswer> {
  const { route } = unverified;
  const nowMs = deps.clock.now();
  if (route.secrets.length === 0) {
    const detail = "The route has no secret to check the signature with. Set one, here and at the sender.";
    return turnAway(deps, unverified, refuse("no_secret"), ["signature", detail]);
  }
  const token = route.sender && verificationTokenOf(route, unverified);
  if (token !== undefined) return keepToken(deps, route.name, { token, nowMs });
  const proof = proofOf(unverified, nowMs);
  if ("why" in proof) {
    const answer = { ...refuse("invalid_signature"), why: proof.why };
    return turnAway(deps, unverified, answer, ["signature", proof.detail]);
  }
  log.verified(route, proof.stage.detail);
  const request: VerifiedRequest = { ...unverified, nonce: proof.nonce };
  const wait = deps.rate.take(route.name, nowMs);
  if (wait) return overRate(deps, { request, proof: proof.stage, wait });
  const evaluated = await evaluate(request, deps.ports);
  const stages: readonly StageResult[] = [
    proof.stage,
    { stage: "rate", result: "pass" },
    ...evaluated.stages,
  ];
  if (evaluated.stop) {
    await deps.deliveries.recordStopped({ request, evaluated, stages });
    log.stopped(request, { evaluated, stages });
    return evaluated.stop;
  }
  return take(deps, { request, evaluated, stages });
}

interface Proof {
  readonly stage: StageResult;
  readonly nonce?: string | undefined;
}

/** Keeps the verification token of a service for the owner. Anyone may send one: it changes nothing by itself. */
async function keepToken(
  { rate, log, keepVerificationToken }: WebhookDeps,
  route: string,
  { token, nowMs }: { readonly token: string; readonly nowMs: number },
): Promise<WebhookAnswer> {
  // Its own limit: strangers must not use up that of the route. No route has such a name.
  const wait = rate.take(`${route} (verification)`, nowMs);
  if (wait) return refuse("rate_limited", { retryAfterSeconds: wait.seconds });
  const file = await keepVerificationToken(route, token);
  log.info("a service sent the verification token of a webhook route", { route, file });
  return ignored({ reason: "verification", route });
}

/** Why a signature is not good: for the log, and in sentences for the owner of the route. */
interface NoProof {
  readonly why: string;
  readonly detail: string;
}

function proofOf(request: UnverifiedRequest, nowMs: number): Proof | NoProof {
  const { secrets, toleranceSeconds, auth, sender: scheme } = request.route;
  const pass = { stage: "signature", result: "pass" } as const;
  if (secrets === "none") return { stage: { ...pass, detail: "not required" } };
  const valid = validSecrets(request.route, nowMs);
  const checked = verifySignature(request, { secrets: valid, toleranceSeconds, auth, scheme, nowMs });
  if (checked.status === "invalid") {
    const detail = explainRefusal(checked, request, { toleranceSeconds });
    return { why: describeRefusal(checked, request), detail };
  }
  return { stage: { ...pass, detail: checked.scheme }, nonce: checked.nonce };
}

/** Refuses a request over the rate. Of a flood it records no more requests than the rate lets pass. */
async function overRate(
  deps: WebhookDeps,
  {
    request,
    proof,
    wait,
  }: { readonly request: VerifiedRequest; readonly proof: StageResult; readonly wait: RateRefusal },
): Promise<WebhookAnswer> {
  const answer = refuse("rate_limited", { retryAfterSeconds: wait.seconds });
  if (wait.count <= deps.rate.max) {
    const detail = `more than ${deps.rate.max} in a minute`;
    const stages: readonly StageResult[] = [proof, { stage: "rate", result: "stop", detail }];
    await deps.deliveries.recordStopped({ request, evaluated: unevaluated(request, answer), stages });
  }
  return answer;
}

/** Hands a request that passed all stages to the agent, or to its target. */
export async function take(
  deps: WebhookDeps,
  { request, evaluated, stages }: EvaluatedRequest,
): Promise<WebhookAnswer> {
  const recordStopped = (stop: WebhookAnswer, detail: string): Promise<void> =>
    deps.deliveries.recordStopped({
      request,
      evaluated: { ...evaluated, stop },
      stages: [...stages, { stage: "admit", result: "stop", detail }],
    });
  const admission = {
    request,
    evaluated: { ...evaluated, text: evaluated.text ?? "" },
    stages: [...stages, { stage: "admit", result: "pass" } as const],
  };
  try {
    const answer = await (request.route.deliverOnly ? deliverDirect : admit)(deps, admission);
    if (answer) return answer;
  } catch (error) {
    // The caller that replays a delivery gets the error itself.
    if (!request.replay) await recordStopped(refuse("store_unavailable"), toServiceError(error).code);
    throw error;
  }
  // Another request with the same key passed the dedupe stage at the same time, and was recorded first.
  const { deliveryId } = evaluated;
  const { route, nonce } = request;
  const first = (await deps.ports.findDuplicate({ route: route.name, deliveryId, nonce })) ?? deliveryId;
  const answer = duplicate(first);
  await recordStopped(answer, `duplicate of ${first}, which was recorded meanwhile`);
  return answer;
}

/** Strangers must not be able to fill the disk with log lines. */
const LINES_PER_MINUTE = 60;
const MAX_ROUTES = 1_000;

/** Logs what the receiver does with requests, without secrets and payloads. */
class ReceiverLog {
  readonly #log: Log;
  readonly #clock: Pick<Clock, "now">;
  readonly #weakRoutes = new Set<string>();
  readonly #lines = new RateLimiter(LINES_PER_MINUTE);
  /** Refusals of this minute that were not logged. */
  #unlogged = 0;

  constructor({ log, clock }: { readonly log: Log; readonly clock: Pick<Clock, "now"> }) {
    this.#log = log;
    this.#clock = clock;
  }

  /** Logs the first refusals of each minute, and with the next one the number of those in between. */
  refused(fields: () => LogFields): void {
    const over = this.#lines.take("refused", this.#clock.now());
    if (over) {
      this.#unlogged = over.count;
      return;
    }
    if (this.#unlogged > 0) this.#log.info("more webhooks were refused", { count: this.#unlogged });
    this.#unlogged = 0;
    this.#log.info("a webhook was refused", fields());
  }

  /** Logs a request that a stage ignored or found to be a duplicate. Pings come with every new hook: debug only. */
  stopped(
    { route, requestId }: VerifiedRequest,
    { evaluated, stages }: { readonly evaluated: Evaluated; readonly stages: readonly StageResult[] },
  ): void {
    const { stop, subject, deliveryId } = evaluated;
    if (stop?.status !== 200) return;
    const { event } = subject;
    const { stage, detail } = stages.at(-1) ?? {};
    // What filters and scripts say may contain the payload.
    const reason = stage === "filters" || stage === "script" ? stage : detail;
    const fields = { request: requestId, route: route.name, event, delivery: deliveryId, reason };
    if (event === "ping") this.#log.debug("a webhook was ignored", fields);
    else if ("status" in stop.body && stop.body.status === "duplicate")
      this.#log.info("a webhook was a duplicate", fields);
    else this.#log.info("a webhook was ignored", fields);
  }

  /** Warns once per route about a signature that anyone who sees it can replay. */
  verified({ name: route, sender }: WebhookRoute, scheme: string | undefined): void {
    const hint = sender?.warning ?? (scheme === "v1" ? V1_HINT : undefined);
    const routes = this.#weakRoutes;
    if (hint === undefined || routes.has(route) || routes.size >= MAX_ROUTES) return;
    routes.add(route);
    this.#log.warn("a webhook route uses a deprecated signature", { route, scheme, hint });
  }
}

const V1_HINT = "X-Webhook-Signature does not sign the time. Send X-Webhook-Signature-V2.";
