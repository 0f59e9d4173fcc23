/** `agentd webhook listen`: sends signed events to a route of the running gateway, and follows its deliveries. */
import process from "node:process";
import { createId } from "../../base/text.ts";
import { systemClock } from "../../base/time.ts";
import type { Route } from "../../client/http.ts";
import { defaultEventOf, exampleBody, testHeaders } from "../../webhook/deliveries/replay.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import type { Api } from "../kit/api.ts";
import { UsageError } from "../kit/arguments.ts";
import { defineApiCommand } from "../kit/command.ts";
import { jsonOption, requiredArgument, switchOption, textOption } from "../kit/options.ts";
import { warn } from "../kit/output.ts";
import { readLines } from "../kit/streams.ts";
import { ListenOutput } from "./listen-output.ts";
import { findRoute, withWebhooks } from "./routes.ts";
import {
  isGood,
  openSender,
  post,
  receiverOption,
  signedRequest,
  type Posted,
  type Sender,
} from "./sender.ts";
import { readBytes } from "./test.ts";
import { DeliveryWatch, type WatchEvent } from "./watch.ts";

export const listenCommand = defineApiCommand({
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
    receiver: receiverOption,
    json: { ...jsonOption, description: "Print each step as a line of JSON" },
  },
  async run({ args }) {
    const isAsked = args.event !== undefined || args.payload !== undefined;
    if (args.once && !isAsked) throw new UsageError("--once needs --event or --payload.");
    await withWebhooks(async (api) => {
      const route = await findRoute(api, args.route);
      const canSend = isAsked || args.receiver !== undefined || api.target === undefined;
      const sender = canSend ? await openSender(api, route.name, args.receiver) : undefined;
      const isTerminal = process.stdin.isTTY && sender !== undefined;
      const reads = args.payload === "-" ? "payloads" : isTerminal ? "enter" : "nothing";
      const body =
        args.payload === undefined || reads === "payloads" ? undefined : await readBytes(args.payload);
      const output = new ListenOutput({ isJson: args.json === true, isLong: args.print === true });
      const over = untilInterrupted();
      const { event } = args;
      const listener = new Listener(api, { route, sender, event, output, signal: over.signal });
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
  readonly route: Route;
  /** Undefined: nothing is sent. */
  readonly sender: Sender | undefined;
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

  constructor(api: Api, options: ListenerOptions) {
    this.#options = options;
    const { route, signal } = options;
    this.#watch = new DeliveryWatch(api, {
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
    const { route, output, signal, sender } = this.#options;
    await this.#watch.begin();
    const shownUrl = sender ? signedRequest(sender, new Uint8Array()).shownUrl : (route.url ?? route.name);
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
    const { route, sender, event, output } = this.#options;
    if (!sender) return;
    const defaultEvent = defaultEventOf(route);
    const body = given ?? exampleBody(event ?? defaultEvent);
    const signed = signedRequest(sender, body);
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
    const { delivery_id: deliveryId, status } = event.delivery;
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
