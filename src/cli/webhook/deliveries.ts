/** `agentd webhook deliveries`: lists, shows and replays received webhooks. */
import process from "node:process";
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { AgentApiError, type Delivery, type ReplayDeliveryBody } from "../../client/http.ts";
import { DELIVERY_STATUSES } from "../../webhook/deliveries/deliveries.ts";
import { STAGES } from "../../webhook/receive/evaluate.ts";
import { withApi, withGatewayApi, type Api } from "../kit/api.ts";
import { defineApiCommand } from "../kit/command.ts";
import { toTime } from "../kit/duration.ts";
import { gatewayPortOption } from "../kit/local-gateway.ts";
import { print, printJson, printTable, warn } from "../kit/output.ts";
import { readPages } from "../kit/pages.ts";
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
import { DELIVERY_HEAD, deliveryCells, deliveryText, resultText, type WholeDelivery } from "./text.ts";

const MAX_LIMIT = 500;

const delivery = requiredArgument(
  "Id of the delivery (dlv_...), or the sender's id, which selects the newest match",
);

const list = defineApiCommand({
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
    const filter = {
      ...(args.route === undefined ? {} : { route: [args.route] }),
      ...(args.status === undefined ? {} : { status: [args.status as Delivery["status"]] }),
      ...(args.event === undefined ? {} : { event: [args.event] }),
      ...(args.since === undefined ? {} : { from: isoTime(args.since, "since", nowMs) }),
      ...(args.until === undefined ? {} : { to: isoTime(args.until, "until", nowMs) }),
    };
    await withApi(async ({ client, anyOwner: headers }) => {
      const read = (page: object) => client.listDeliveries({ query: { ...filter, ...page }, headers });
      const { rows, next } = await readPages(read, { limit, after: args.cursor });
      if (args.json) return printJson({ deliveries: rows, next_cursor: next });
      const cells = rows.map((each) => deliveryCells(each, nowMs));
      if (rows.length > 0) printTable(DELIVERY_HEAD, cells);
      else warn("No deliveries found.");
      if (next !== null) warn(`More deliveries follow: pass --cursor ${next}`);
    });
  },
});

function isoTime(text: string, option: string, nowMs: number): string {
  return new Date(toTime(text, option, nowMs)).toISOString();
}

const show = defineApiCommand({
  meta: {
    name: "show",
    description: "Show a delivery with the result of each stage, its prompt, run and messages",
  },
  args: { delivery, json: jsonOption },
  async run({ args }) {
    await withApi(async (api) => {
      const found = await readWhole(api, await findDelivery(api, args.delivery));
      if (args.json) printJson(found);
      else print(deliveryText(found));
    });
  },
});

type LastStage = NonNullable<ReplayDeliveryBody["up_to"]>;

const replay = defineApiCommand({
  meta: {
    name: "replay",
    description:
      "Handle a delivery again as its route is now, as a new delivery. On this machine the gateway must run. Exits with 1 if it is refused",
  },
  args: {
    delivery,
    until: {
      type: "enum",
      options: STAGES.filter((stage) => !["receive", "signature", "rate", "admit"].includes(stage)),
      description: "Run the stages up to this one, without sending or recording anything",
    },
    "dry-run": switchOption(
      "Run all stages without sending or recording anything. The script of the route runs",
    ),
    port: gatewayPortOption,
    json: jsonOption,
  },
  async run({ args }) {
    const { until, json } = args;
    if (args["dry-run"] || until !== undefined) {
      return withApi(async (api) => {
        const body = until === undefined ? {} : { up_to: until as LastStage };
        const request = { ...(await pathOf(api, args.delivery)), body, query: { dry_run: true } };
        const { data: result } = await api.client.replayDelivery(request);
        if (result.object !== "agent.webhook_result") return;
        if (json) printJson(result);
        else print(resultText(result));
      });
    }
    await withGatewayApi(args.port, async (api) => {
      const request = { ...(await pathOf(api, args.delivery)), body: {} };
      const { data: made } = await api.client.replayDelivery(request);
      if (made.object !== "agent.delivery") return;
      if (json) printJson(made);
      else print(`  Replayed ${made.replay_of} as ${made.id}: ${made.status}`);
      if (made.status === "refused" || made.status === "failed") process.exitCode = EXIT_FAILURE;
    });
  },
});

export const deliveriesCommand = defineCommand({
  meta: { name: "deliveries", description: "List, show and replay webhook deliveries" },
  subCommands: { list, show, replay },
});

async function pathOf(api: Api, ref: string) {
  const { id, owner } = await findDelivery(api, ref);
  return { path: { delivery_id: id }, headers: api.ownedBy(owner) };
}

/** Returns the delivery with this id, or the newest with this id of its sender. ServiceError `not_found`. */
async function findDelivery({ client, anyOwner: headers }: Api, ref: string): Promise<Delivery> {
  if (/^dlv_\w+$/.test(ref)) {
    const found = await unlessMissing(client.getDelivery({ path: { delivery_id: ref }, headers }));
    if (found) return found;
  }
  const query = { delivery_id: ref, limit: 1 };
  const [newest] = (await client.listDeliveries({ query, headers })).data.data;
  if (newest) return newest;
  const hint = "List the deliveries with `agentd webhook deliveries list`.";
  throw new ServiceError("not_found", `Unknown delivery ${JSON.stringify(ref)}. ${hint}`);
}

/** More than the targets of a delivery. */
const MAX_MESSAGES = 100;

/** Returns a delivery with its payload, its rendered text, its run and its messages. */
export async function readWhole(
  { client, ownedBy }: Api,
  { id, owner, run_id: runId, message_id: messageId }: Delivery,
): Promise<WholeDelivery> {
  const headers = ownedBy(owner);
  const query = { include: ["payload" as const, "rendered" as const] };
  const { data: whole } = await client.getDelivery({ path: { delivery_id: id }, query, headers });
  const run =
    runId === null ? undefined : await unlessMissing(client.getRun({ path: { run_id: runId }, headers }));
  const { data: sent } = await client.listMessages({ query: { ref: id, limit: MAX_MESSAGES }, headers });
  const messages = sent.data.toReversed();
  // A retry of the sender reuses the failed message, which then belongs to the newer delivery.
  const path = messageId === null || messages.length > 0 ? undefined : { message_id: messageId };
  const first = path && (await unlessMissing(client.getMessage({ path, headers })));
  return { ...whole, run: run ?? null, messages: first ? [first] : messages };
}

async function unlessMissing<T>(answer: Promise<{ readonly data: T }>): Promise<T | undefined> {
  try {
    return (await answer).data;
  } catch (error) {
    if (error instanceof AgentApiError && error.status === 404) return undefined;
    throw error;
  }
}
