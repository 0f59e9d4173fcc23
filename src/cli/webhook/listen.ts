/** `agentd webhook listen`: sends signed events to a route of the running gateway, and follows its deliveries. */
import process from "node:process";
import { defineCommand } from "citty";
import { createId } from "../../base/text.ts";
import { systemClock } from "../../base/time.ts";
import { loadConfig } from "../../config/config.ts";
import { hideSecrets } from "../../config/secret-values.ts";
import { defaultEventOf, exampleBody, testHeaders } from "../../webhook/deliveries/replay.ts";
import type { WebhookRoute } from "../../webhook/routes/route.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { UsageError } from "../kit/arguments.ts";
import { currentContext } from "../kit/context.ts";
import { findDatabase, noDatabase, withDatabase } from "../kit/database.ts";
import { jsonOption, requiredArgument, switchOption, textOption } from "../kit/options.ts";
import { warn } from "../kit/output.ts";
import { readLines } from "../kit/streams.ts";
import { openWebhookHome, post, signedRequest, targetUrl, type Posted } from "./home.ts";
import { ListenOutput } from "./listen-output.ts";
import { findRoute, isGood, readBytes } from "./test.ts";
import { DeliveryWatch, type WatchEvent } from "./watch.ts";
import type { Store } from "../../store/store.ts";
import { ServiceError } from "../../base/errors.ts";

export const listenCommand = defineCommand({
  meta: {
    name: "listen",
    description:
      "Show each delivery of a route as it happens, from any sender: its stages, its run, its text and its messages. Ctrl-C ends the command. With --event or --payload it first sends that event, signed with the secret of the route. At a terminal Enter sends the event again",
  },
  args: {
    route: requiredArgument("Name of the route"),
    event: textOption("type", "Send an event of this type. Default: the first that the route accepts"),
    payload: textOption(
      "file",
      "Send this file; for - each line of standard input. Default: a small example",
    ),
    print: switchOption("Also print the payload and the rendered prompt of each delivery"),
    once: switchOption("Exit when the deliveries that were sent have ended: with 0 if all of them succeeded"),
    url: textOption("url", "Address of the receiver. Default: this machine"),
    json: { ...jsonOption, description: "Print each step as a line of JSON" },
  },
  async run({ args }) {
    const webhookHome = await openWebhookHome();
    const route = findRoute(webhookHome, args.route);
    const base = targetUrl(webhookHome, args.url);
    const isAsked = args.event !== undefined || args.payload !== undefined;
    if (args.once && !isAsked) throw new UsageError("--once needs --event or --payload.");
    const reads = args.payload === "-" ? "payloads" : process.stdin.isTTY ? "enter" : "nothing";
    const body =
      args.payload === undefined || reads === "payloads" ? undefined : await readBytes(args.payload);
    const database = await findDatabase();
    if (!database.exists) throw new ServiceError("not_found", noDatabase(database.location));
    hideSecrets(await loadConfig(currentContext()));
    const output = new ListenOutput({ isJson: args.json === true, isLong: args.print === true });
    const over = untilInterrupted();
    await withDatabase(database, async (store) => {
      const listener = new Listener(store, { route, base, event: args.event, output, signal: over.signal });
      const sendsFirst = isAsked && reads !== "payloads";
      const plan = { body, sendsFirst, reads, once: args.once === true, end: () => over.abort() } as const;
      const isGoodEnd = await listener.run(plan);
      if (!isGoodEnd) process.exitCode = EXIT_FAILURE;
    });
  },
});

function untilInterrupted(): AbortController {
  const over = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(name, () => over.abort());
  return over;
}

type Body = Uint8Array<ArrayBuffer>;

interface ListenerOptions {
  readonly route: WebhookRoute;
  readonly base: string;
  readonly event: string | undefined;
  readonly output: ListenOutput;
  readonly signal: AbortSignal;
}

interface Plan {
  /** Undefined: the example. */
  readonly body: Body | undefined;
  /** Whether the body is sent at the start. */
  readonly sendsFirst: boolean;
  /** What standard input has: payloads, one per line; the Enter key, which sends the body; or nothing of interest. */
  readonly reads: "payloads" | "enter" | "nothing";
  readonly once: boolean;
  /** Ends the command. */
  readonly end: () => void;
}

/** Of a payload on standard input; a file may be longer. */
const MAX_PAYLOAD_CHARACTERS = 1_048_576;
const POLL_MS = 100;
/** Deliveries of other senders end meanwhile, too. */
const MAX_EARLY = 1_000;
/** Time for the record of an event that was refused or ignored, which its response does not wait for. */
const LAST_MS = 1_000;

class Listener {
  readonly #options: ListenerOptions;
  readonly #watch: DeliveryWatch;
  /** Deliveries that were sent and have not ended, by the sender's id. */
  readonly #waiting = new Map<string, number>();
  /** Ends that came while an event was sent: maybe that of the event, whose response is still to come. */
  readonly #early: WatchEvent[] = [];
  #isSending = false;
  #hasFailed = false;
  #isSent = false;

  constructor(store: Store, options: ListenerOptions) {
    this.#options = options;
    const { route, signal } = options;
    this.#watch = new DeliveryWatch(store, {
      route: route.name,
      signal,
      emit: (event) => {
        options.output.show(event);
        this.#settle(event);
      },
    });
  }

  /** Resolves when the signal aborts, or, with `once`, when all that was sent has ended: to whether it succeeded. */
  async run(plan: Plan): Promise<boolean> {
    const { once, end } = plan;
    const { route, base, output, signal } = this.#options;
    await this.#watch.begin();
    const shownUrl = signedRequest(route, base, new Uint8Array()).shownUrl;
    output.begin(shownUrl, { canSend: plan.reads === "enter" });
    const watching = this.#watch.run().finally(end);
    const sending = this.#sendAll(plan).then(
      () => void (this.#isSent = true),
      (error: unknown) => {
        end();
        throw error;
      },
    );
    await Promise.all([watching, sending, once ? this.#untilSettled(signal).then(end) : undefined]);
    return !once || (!this.#hasFailed && this.#isSent && this.#waiting.size === 0);
  }

  async #untilSettled(signal: AbortSignal): Promise<void> {
    const sleep = (ms: number) => systemClock.sleep(ms, { signal }).catch(() => {});
    while (!signal.aborted && (!this.#isSent || this.#waiting.size > 0)) await sleep(POLL_MS);
    if (this.#hasFailed) await sleep(LAST_MS);
  }

  async #sendAll({ body, sendsFirst, reads, once }: Plan): Promise<void> {
    if (sendsFirst) await this.#send(body);
    if (reads === "nothing" || (reads === "enter" && once)) return;
    const { signal } = this.#options;
    for await (const line of readLines({ signal, maxCharacters: MAX_PAYLOAD_CHARACTERS })) {
      if (reads === "enter") await this.#send(body);
      else if (line.trim() !== "") await this.#sendLine(line);
    }
  }

  async #sendLine(text: string): Promise<void> {
    try {
      JSON.parse(text);
    } catch {
      this.#hasFailed = true;
      return warn("Not sent: a line of standard input must be the JSON of one payload.");
    }
    await this.#send(new TextEncoder().encode(text));
  }

  async #send(given: Body | undefined): Promise<void> {
    const { route, base, event, output } = this.#options;
    const defaultEvent = defaultEventOf(route);
    const body = given ?? exampleBody(event ?? defaultEvent);
    const signed = signedRequest(route, base, body);
    const headers = {
      ...signed.headers,
      ...testHeaders({}, { event, defaultEvent }),
      "x-request-id": createId("req"),
    };
    this.#isSending = true;
    const posted = await post({ url: signed.url, headers, body });
    this.#isSending = false;
    output.sent({ url: signed.shownUrl, bytes: body.byteLength, posted });
    const id = isGood(posted) ? deliveryIdIn(posted) : undefined;
    if (id === undefined) this.#hasFailed = true;
    else this.#waiting.set(id, (this.#waiting.get(id) ?? 0) + 1);
    for (const early of this.#early.splice(0)) this.#settle(early);
  }

  #settle(event: WatchEvent): void {
    if (event.type !== "ended") return;
    const { deliveryId, status } = event.delivery;
    const count = this.#waiting.get(deliveryId);
    if (count === undefined) {
      if (this.#isSending && this.#early.length < MAX_EARLY) this.#early.push(event);
      return;
    }
    if (status !== "completed" && status !== "delivered") this.#hasFailed = true;
    if (count > 1) this.#waiting.set(deliveryId, count - 1);
    else this.#waiting.delete(deliveryId);
  }
}

/** Returns the delivery id of an event that is handled; undefined for one that is ignored. */
function deliveryIdIn(posted: Posted): string | undefined {
  if (posted.status === undefined) return undefined;
  try {
    const { delivery_id: id, status } = JSON.parse(posted.body) as Record<string, unknown>;
    return typeof id === "string" && status !== "duplicate" ? id : undefined;
  } catch {
    return undefined;
  }
}
