/** `agentd webhook deliveries`: reads received webhooks from the database, whether the gateway runs or not. */
import process from "node:process";
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { createId } from "../../base/text.ts";
import { findMessage, listMessages } from "../../store/outbox/messages.ts";
import type { Store } from "../../store/store.ts";
import {
  Deliveries,
  DELIVERY_STATUSES,
  type Delivery,
  type DeliveryFilter,
  type DeliveryStatus,
} from "../../webhook/deliveries/deliveries.ts";
import { replayHeaders, requestOf, signedHeaders } from "../../webhook/deliveries/replay.ts";
import { routeUrl } from "../../webhook/routes/route.ts";
import { STAGES, type StageName } from "../../webhook/receive/evaluate.ts";
import { toTime } from "../kit/duration.ts";
import { print, printJson, printTable, warn } from "../kit/output.ts";
import {
  cursorOption,
  jsonOption,
  limitOption,
  requiredArgument,
  switchOption,
  textOption,
  toLimit,
} from "../kit/options.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { findDatabase, noDatabase, withDatabase } from "../kit/database.ts";
import { openWebhookHome, routeNamed, targetUrl, type WebhookHome, post } from "./home.ts";
import {
  answerText,
  DELIVERY_HEAD,
  deliveryCells,
  deliveryJson,
  deliveryText,
  evaluationJson,
  evaluationText,
  summaryJson,
  type DeliveryOutcome,
} from "./text.ts";

const MAX_LIMIT = 500;

const delivery = requiredArgument(
  "Id of the delivery (dlv_...), or the sender's id, which selects the newest match",
);

const list = defineCommand({
  meta: { name: "list", description: "List deliveries, newest first" },
  args: {
    route: textOption("name", "Filter by route"),
    status: { type: "enum", options: [...DELIVERY_STATUSES], description: "Filter by status" },
    event: textOption("type", "Filter by event type"),
    since: textOption("time", "Received after this age or time: 90m, 12h, 7d, or ISO 8601"),
    until: textOption("time", "Received before this age or time"),
    limit: limitOption("Deliveries", { max: MAX_LIMIT, fallback: 50 }),
    cursor: cursorOption,
    json: jsonOption,
  },
  async run({ args }) {
    const limit = toLimit(args.limit, MAX_LIMIT);
    const nowMs = Date.now();
    const filter: DeliveryFilter = {
      ...(args.route === undefined ? {} : { routes: [args.route] }),
      ...(args.status === undefined ? {} : { statuses: [args.status as DeliveryStatus] }),
      ...(args.event === undefined ? {} : { events: [args.event] }),
      ...(args.since === undefined ? {} : { fromMs: toTime(args.since, "since", nowMs) }),
      ...(args.until === undefined ? {} : { toMs: toTime(args.until, "until", nowMs) }),
    };
    const database = await findDatabase();
    if (!database.exists) {
      warn(noDatabase(database.location));
      if (args.json) printJson({ deliveries: [], next_cursor: null });
      return;
    }
    await withDatabase(database, async (store) => {
      const { cursor } = args;
      const page = await new Deliveries(store).list(filter, { limit, cursor });
      const { deliveries, nextCursor } = page;
      if (args.json) {
        printJson({ deliveries: deliveries.map(summaryJson), next_cursor: nextCursor ?? null });
      } else if (deliveries.length > 0)
        printTable(
          DELIVERY_HEAD,
          deliveries.map((each) => deliveryCells(each, nowMs)),
        );
      else warn("No deliveries found.");
      if (nextCursor !== undefined && !args.json) warn(`More deliveries follow: pass --cursor ${nextCursor}`);
    });
  },
});

const show = defineCommand({
  meta: {
    name: "show",
    description: "Show a delivery with the result of each stage, its prompt, run and messages",
  },
  args: { delivery, json: jsonOption },
  async run({ args }) {
    const { found, outcome } = await readDelivery(args.delivery);
    if (args.json) printJson(deliveryJson(found, outcome));
    else print(deliveryText(found, outcome));
  },
});

const replay = defineCommand({
  meta: {
    name: "replay",
    description: "Send a delivery again to the running gateway, which records it as a new one",
  },
  args: {
    delivery,
    until: {
      type: "enum",
      options: STAGES.filter((stage) => !["receive", "signature", "rate", "admit"].includes(stage)),
      description: "Run the stages up to this one in this process, without sending or recording anything",
    },
    "dry-run": switchOption(
      "Run all stages in this process, without sending or recording anything. The script of the route runs",
    ),
    url: textOption("url", "Address of the receiver. Default: this machine"),
    json: jsonOption,
  },
  async run({ args }) {
    const webhookHome = await openWebhookHome();
    const { found } = await readDelivery(args.delivery);
    const isDryRun = args["dry-run"] === true || args.until !== undefined;
    if (isDryRun)
      return dryRunDelivery(webhookHome, found, { upTo: args.until as StageName, json: args.json });
    await sendAgain(webhookHome, found, { url: targetUrl(webhookHome, args.url), json: args.json });
  },
});

export const deliveriesCommand = defineCommand({
  meta: { name: "deliveries", description: "List, show and replay webhook deliveries" },
  subCommands: { list, show, replay },
});

interface FoundDelivery {
  readonly found: Delivery;
  readonly outcome: DeliveryOutcome;
}

/** Reads a delivery and closes the database. ServiceError `not_found`. */
async function readDelivery(id: string): Promise<FoundDelivery> {
  const database = await findDatabase();
  if (!database.exists) throw new ServiceError("not_found", noDatabase(database.location));
  const read: FoundDelivery[] = [];
  await withDatabase(database, async (store) => {
    const found = await new Deliveries(store).show(id);
    if (found) read.push({ found, outcome: await readOutcome(found, store) });
  });
  const [delivery] = read;
  if (delivery) return delivery;
  const hint = "List the deliveries with `agentd webhook deliveries list`.";
  throw new ServiceError("not_found", `Unknown delivery ${JSON.stringify(id)}. ${hint}`);
}

/** More than the targets of a delivery. */
const MAX_MESSAGES = 100;

async function readOutcome({ id, runId, outboxId }: Delivery, store: Store): Promise<DeliveryOutcome> {
  const run = runId === undefined ? undefined : await store.find("runs", { id: runId });
  const messages = (await listMessages(store, { ref: id, limit: MAX_MESSAGES })).toReversed();
  // A retry of the sender reuses the failed message, which then belongs to the newer delivery.
  const first =
    outboxId === undefined || messages.length > 0 ? undefined : await findMessage(store, outboxId);
  return {
    run: run && { id: run.id, status: run.status, output: run.output, error: messageIn(run.error) },
    messages: (first ? [first] : messages).map((message) => ({
      id: message.id,
      target: message.target,
      status: message.status,
      attempts: message.attempts,
      error: message.error ?? null,
      due_at: message.dueAtMs === undefined ? null : new Date(message.dueAtMs).toISOString(),
    })),
  };
}

/** Returns the message of a run's error, which the store keeps as JSON. */
function messageIn(error: string | null): string | null {
  if (error === null) return null;
  const { message } = JSON.parse(error) as { readonly message?: unknown };
  return typeof message === "string" ? message : error;
}

interface Shown {
  readonly json?: boolean | undefined;
}

async function dryRunDelivery(
  webhookHome: WebhookHome,
  found: Delivery,
  { upTo, json: asJson }: Shown & { readonly upTo: StageName | undefined },
): Promise<void> {
  const request = requestOf(found, routeNamed(webhookHome, found.route));
  if (!request) throw notKept(found);
  const { dryRunRequest } = await import("./dry-run.ts");
  const evaluated = await dryRunRequest(request, upTo === undefined ? {} : { upTo });
  if (asJson) printJson(evaluationJson(evaluated));
  else print(evaluationText(evaluated));
}

/** Sends the delivery again under a new id, so that it does not count as a duplicate. */
async function sendAgain(
  webhookHome: WebhookHome,
  found: Delivery,
  { url: base, json: asJson }: Shown & { readonly url: string },
): Promise<void> {
  const route = routeNamed(webhookHome, found.route);
  if (found.payload === undefined) throw notKept(found);
  const url = routeUrl(base, route.name);
  const body = new TextEncoder().encode(found.payload);
  const signed = signedHeaders(route, body, Date.now());
  const headers = { ...replayHeaders(found), "x-request-id": createId("req"), ...signed };
  if (!asJson) print(`  Replaying ${found.id} to ${url}`);
  const posted = await post({ url, headers, body });
  if (asJson) printJson({ url, replay_of: found.id, ...posted });
  else print(answerText(posted));
  if (posted.status === undefined || posted.status >= 300) process.exitCode = EXIT_FAILURE;
}

function notKept({ id, isUnverified }: Delivery): ServiceError {
  if (isUnverified) {
    const why = `The body of ${id} was not stored: its sender was not verified.`;
    return new ServiceError("not_found", `${why} Have the sender send it again.`);
  }
  return new ServiceError("not_found", `The body of ${id} was not stored: it was binary or too long.`);
}
