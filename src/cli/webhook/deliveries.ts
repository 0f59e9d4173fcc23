/** `agentd webhook deliveries`: what came in, straight from the database, whether the gateway runs or not. */
import process from "node:process";
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { createId } from "../../base/ids.ts";
import { findMessage, listMessages } from "../../store/outbox/messages.ts";
import type { Store } from "../../store/store.ts";
import {
  Deliveries,
  DELIVERY_STATUSES,
  type Delivery,
  type DeliveryFilter,
  type DeliveryStatus,
} from "../../webhook/deliveries/deliveries.ts";
import { replayHeaders, requestOf } from "../../webhook/deliveries/replay.ts";
import { STAGES, type StageName } from "../../webhook/receive/stage.ts";
import { UsageError } from "../kit/arguments.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { cursorOption, jsonOption, limitOption, toLimit } from "../kit/options.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { findDatabase, noDatabase, withDatabase } from "../kit/database.ts";
import { openWebhookHome, routeNamed, routeUrl, targetUrl, type WebhookHome, postSigned } from "./home.ts";
import {
  answerText,
  deliveriesTable,
  deliveryJson,
  deliveryText,
  evaluationJson,
  evaluationText,
  summaryJson,
  type DeliveryEnds,
} from "./text.ts";

const MAX_LIMIT = 500;

const delivery = {
  type: "positional",
  required: true,
  description: "Id of the record (dlv_...), or the sender's own id: the newest of that",
} as const;

const list = defineCommand({
  meta: { name: "list", description: "List what came in with a good signature, newest first" },
  args: {
    route: { type: "string", valueHint: "name", description: "Only those of this route" },
    status: { type: "enum", options: [...DELIVERY_STATUSES], description: "Only those that stand so" },
    event: { type: "string", valueHint: "type", description: "Only those of this kind" },
    since: { type: "string", valueHint: "time", description: "Not older: 90m, 12h, 7d, or an ISO 8601 time" },
    until: { type: "string", valueHint: "time", description: "Older, in the same forms" },
    limit: limitOption("Deliveries", { max: MAX_LIMIT, fallback: 50 }),
    cursor: cursorOption,
    json: jsonOption,
  },
  async run({ args }) {
    const limit = toLimit(args.limit, MAX_LIMIT);
    const nowMs = Date.now();
    const filter: DeliveryFilter = {
      ...(args.route === undefined ? {} : { route: args.route }),
      ...(args.status === undefined ? {} : { status: args.status as DeliveryStatus }),
      ...(args.event === undefined ? {} : { event: args.event }),
      ...(args.since === undefined ? {} : { sinceMs: toTime(args.since, "since", nowMs) }),
      ...(args.until === undefined ? {} : { untilMs: toTime(args.until, "until", nowMs) }),
    };
    const database = await findDatabase();
    if (!database.exists) {
      warn(noDatabase(database.place));
      if (args.json) printJson({ deliveries: [], next_cursor: null });
      return;
    }
    await withDatabase(database, async (store) => {
      const { cursor } = args;
      const page = await new Deliveries(store).list(filter, { limit, cursor });
      const { deliveries, nextCursor } = page;
      if (args.json) {
        printJson({ deliveries: deliveries.map(summaryJson), next_cursor: nextCursor ?? null });
      } else if (deliveries.length > 0) print(deliveriesTable(deliveries));
      else warn("There are no such deliveries.");
      if (nextCursor !== undefined && !args.json) warn(`There are more: --cursor ${nextCursor}`);
    });
  },
});

const show = defineCommand({
  meta: {
    name: "show",
    description: "Print a delivery: the verdict of each stage, what was told, the run, what was sent",
  },
  args: { delivery, json: jsonOption },
  async run({ args }) {
    const { found, ends } = await readDelivery(args.delivery);
    if (args.json) printJson(deliveryJson(found, ends));
    else print(deliveryText(found, ends));
  },
});

const replay = defineCommand({
  meta: {
    name: "replay",
    description:
      "Send a delivery through its route once more: to the running gateway, which records it as a new one",
  },
  args: {
    delivery,
    until: {
      type: "enum",
      options: STAGES.filter((stage) => stage !== "signature" && stage !== "rate" && stage !== "admit"),
      description: "Go up to this stage only, in this process; nothing is sent or recorded",
    },
    "dry-run": {
      type: "boolean",
      description: "All stages, in this process; nothing is sent or recorded. The route's script does run",
    },
    url: {
      type: "string",
      valueHint: "url",
      description: "Address of the receiver; without it this machine's",
    },
    json: jsonOption,
  },
  async run({ args }) {
    const place = await openWebhookHome();
    const { found } = await readDelivery(args.delivery);
    const isRehearsal = args["dry-run"] === true || args.until !== undefined;
    if (isRehearsal)
      return rehearseDelivery(place, found, { upTo: args.until as StageName, json: args.json });
    await post(place, found, { url: targetUrl(place, args.url), json: args.json });
  },
});

export const deliveriesCommand = defineCommand({
  meta: { name: "deliveries", description: "What came in with a good signature, and what became of it" },
  subCommands: { list, show, replay },
});

interface ReadDelivery {
  readonly found: Delivery;
  readonly ends: DeliveryEnds;
}

/** The database is closed again. ServiceError `not_found`. */
async function readDelivery(id: string): Promise<ReadDelivery> {
  const database = await findDatabase();
  if (!database.exists) throw new ServiceError("not_found", noDatabase(database.place));
  const read: ReadDelivery[] = [];
  await withDatabase(database, async (store) => {
    const found = await new Deliveries(store).show(id);
    if (found) read.push({ found, ends: await endsOf(found, store) });
  });
  const [delivery] = read;
  if (delivery) return delivery;
  const hint = "`agentd webhook deliveries list` lists what there is.";
  throw new ServiceError("not_found", `There is no delivery ${JSON.stringify(id)}. ${hint}`);
}

/** More than a delivery has targets. */
const MAX_MESSAGES = 100;

async function endsOf({ id, runId, outboxId }: Delivery, store: Store): Promise<DeliveryEnds> {
  const run = runId === undefined ? undefined : await store.find("runs", { id: runId });
  const owed = (await listMessages(store, { ref: id, limit: MAX_MESSAGES })).toReversed();
  // A message that failed is sent again under its id when the sender tries again: it is the newer delivery's then.
  const first = outboxId === undefined || owed.length > 0 ? undefined : await findMessage(store, outboxId);
  return {
    run: run && { id: run.id, status: run.status },
    messages: (first ? [first] : owed).map((letter) => ({
      id: letter.id,
      target: letter.target,
      status: letter.status,
      attempts: letter.attempts,
      error: letter.error ?? null,
      due_at: letter.dueAtMs === undefined ? null : new Date(letter.dueAtMs).toISOString(),
    })),
  };
}

interface Shown {
  readonly json?: boolean | undefined;
}

async function rehearseDelivery(
  place: WebhookHome,
  found: Delivery,
  { upTo, json: asJson }: Shown & { readonly upTo: StageName | undefined },
): Promise<void> {
  const request = requestOf(found, routeNamed(place, found.route));
  if (!request) throw notKept(found);
  const { rehearseRequest } = await import("./rehearsal.ts");
  const evaluated = await rehearseRequest(request, upTo === undefined ? {} : { upTo });
  if (asJson) printJson(evaluationJson(evaluated));
  else print(evaluationText(evaluated));
}

/** The gateway records it with what it repeats; the new id lets nobody take it for the old one. */
async function post(
  place: WebhookHome,
  found: Delivery,
  { url: base, json: asJson }: Shown & { readonly url: string },
): Promise<void> {
  const route = routeNamed(place, found.route);
  if (found.payload === undefined) throw notKept(found);
  const url = routeUrl(base, route.name);
  const headers = { ...replayHeaders(found), "x-request-id": createId("req") };
  const body = new TextEncoder().encode(found.payload);
  if (!asJson) print(`  Replaying ${found.id} to ${url}`);
  const posted = await postSigned({ url, route, headers, body });
  if (asJson) printJson({ url, replay_of: found.id, ...posted });
  else print(answerText(posted));
  if (posted.status === undefined || posted.status >= 300) process.exitCode = EXIT_FAILURE;
}

function notKept({ id }: Delivery): ServiceError {
  return new ServiceError("not_found", `The body of ${id} was not kept: it was no text, or too long.`);
}

const UNIT_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

function toTime(text: string, name: string, nowMs: number): number {
  const { count, unit = "" } = /^(?<count>\d{1,6})(?<unit>[mhd])$/.exec(text)?.groups ?? {};
  const timeMs = count === undefined ? Date.parse(text) : nowMs - Number(count) * (UNIT_MS[unit] ?? 0);
  if (Number.isFinite(timeMs)) return timeMs;
  throw new UsageError(
    `--${name} must be like 90m, 12h or 7d, or an ISO 8601 time, not ${JSON.stringify(text)}.`,
  );
}
