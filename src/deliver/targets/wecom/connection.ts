import type { WSClient } from "@wecom/aibot-node-sdk";
import { abortable, type Clock } from "../../../base/time.ts";
import type { Log } from "../../../base/observe.ts";
import type { Store } from "../../../store/store.ts";
import {
  type NoAnswer,
  type SendFailure,
  throttled,
  type PlatformAnswer,
  outcomeOfAnswer,
} from "../../platform/call.ts";
import { Singleton } from "../../platform/singleton.ts";
import type { SendOutcome } from "../../target.ts";
import type { WecomRobotAnswer } from "../../../../generated/delivery/client/types.gen.ts";

/** The used part of `@wecom/aibot-node-sdk`. */
export interface WecomSdk {
  readonly WSClient: typeof WSClient;
}

interface WecomConnectionOptions {
  readonly botId: string;
  readonly secret: string;
  /** Default: WeCom's own. */
  readonly url: string | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly store: Store;
  /** Loads the SDK; undefined when it is not installed. */
  readonly load: () => Promise<WecomSdk | undefined>;
}

type Opened = { readonly kind: "open"; readonly client: WSClient } | NoAnswer;

const CONNECT_MS = 15_000;
/** The connection only sends, so it is closed after this idle time. */
const IDLE_MS = 300_000;
/** Pause after another client took the connection: reconnecting at once would start a fight. */
const HOLD_OFF_MS = 300_000;
/** Time in which the process that has the connection should claim the message. */
const ELSEWHERE_MS = 5_000;
const MAX_FRAME_BYTES = 4_194_304;
const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** The only connection of a bot, opened with the first message by the process that holds the lease. */
export class WecomConnection {
  readonly #options: WecomConnectionOptions;
  readonly #lease: Singleton;
  #client: WSClient | undefined;
  #opening: Promise<Opened> | undefined;
  #heldOffUntilMs = 0;
  #cancelRest = () => {};
  #isClosed = false;

  constructor(options: WecomConnectionOptions) {
    this.#options = options;
    const { store, clock, botId } = options;
    this.#lease = new Singleton({ store, clock, name: `wecom:${botId}`, onLost: () => this.#leaseLost() });
  }

  get isReady(): boolean {
    return this.#options.clock.now() >= this.#heldOffUntilMs && !this.#lease.isElsewhere;
  }

  /** Sends one message; `content` is Markdown. */
  async send(chat: string, content: string, signal: AbortSignal): Promise<SendOutcome> {
    const opened = await this.#open(signal);
    if (opened.kind === "none") return opened.outcome;
    this.#restAfter(IDLE_MS);
    try {
      const body = { msgtype: "markdown", markdown: { content } } as const;
      await abortable(opened.client.sendMessage(chat, body), signal);
      return { status: "delivered" };
    } catch (error) {
      signal.throwIfAborted();
      return outcomeOfRejection(error);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#rest();
  }

  #open(signal: AbortSignal): Promise<Opened> {
    if (this.#client?.isConnected) return Promise.resolve({ kind: "open", client: this.#client });
    this.#opening ??= this.#connect().finally(() => (this.#opening = undefined));
    return abortable(this.#opening, signal);
  }

  async #connect(): Promise<Opened> {
    const waitMs = this.#heldOffUntilMs - this.#options.clock.now();
    if (waitMs > 0) return none(throttled("Another client has opened the bot's connection.", waitMs));
    this.#cancelRest();
    if (!(await this.#lease.take())) {
      return none(
        throttled("Another process of agentd has the bot's connection and sends the message.", ELSEWHERE_MS),
      );
    }
    const sdk = await this.#options.load();
    if (!sdk) return this.#fail(lost("retry", NOT_INSTALLED));
    if (this.#isClosed) return this.#fail(lost("retry", "agentd is stopping."));
    try {
      return await this.#signIn(sdk);
    } catch (error) {
      await this.#lease.giveBack();
      throw error;
    }
  }

  async #signIn(sdk: WecomSdk): Promise<Opened> {
    const { botId, secret, url, clock } = this.#options;
    const { promise, resolve } = Promise.withResolvers<SendFailure | undefined>();
    // The SDK must not reconnect: only the process that holds the lease may.
    const client = new sdk.WSClient({
      botId,
      secret,
      ...(url === undefined ? {} : { wsUrl: url }),
      maxReconnectAttempts: 0,
      maxAuthFailureAttempts: 0,
      logger: silent,
      wsOptions: { handshakeTimeout: CONNECT_MS, maxPayload: MAX_FRAME_BYTES },
    });
    client.on("authenticated", () => resolve(undefined));
    client.on("error", (error) => resolve(connectFailure(error)));
    client.on("disconnected", () =>
      resolve(lost("retry", "The connection was closed before the bot had signed in.")),
    );
    client.on("event.disconnected_event", () => this.#kickedOut(client));
    const cancel = clock.after(CONNECT_MS, () =>
      resolve(lost("retry", `The bot could not sign in within ${CONNECT_MS / 1000} s.`)),
    );
    client.connect();
    const failure = await promise;
    cancel();
    if (failure || this.#isClosed) {
      client.disconnect();
      return this.#fail(failure ?? lost("retry", "agentd is stopping."));
    }
    this.#client = client;
    // The attempt that opened the connection may be over.
    this.#restAfter(IDLE_MS);
    return { kind: "open", client };
  }

  async #fail(outcome: SendFailure): Promise<Opened> {
    const isHeldOff = this.#heldOffUntilMs > this.#options.clock.now();
    if (!isHeldOff || this.#isClosed) await this.#lease.giveBack();
    return none(outcome);
  }

  /** Keeps the lease during the pause, so that no other process of agentd opens a connection. */
  #kickedOut(client: WSClient): void {
    const { clock, log } = this.#options;
    if (this.#client === client) this.#client = undefined;
    this.#heldOffUntilMs = clock.now() + HOLD_OFF_MS;
    this.#restAfter(HOLD_OFF_MS);
    log.warn(
      "another client has opened the only connection of the WeCom bot; messages wait. Stop the other client, or configure a separate bot for agentd",
      { waitMs: HOLD_OFF_MS },
    );
  }

  #leaseLost(): void {
    this.#options.log.warn("lost the lease for the connection of the WeCom bot; closing it");
    this.#disconnect();
  }

  #restAfter(ms: number): void {
    this.#cancelRest();
    this.#cancelRest = this.#options.clock.after(ms, () => void this.#rest());
  }

  async #rest(): Promise<void> {
    this.#cancelRest();
    this.#disconnect();
    // A connection attempt in progress sees `#isClosed` and releases the lease itself.
    await this.#opening?.catch(() => {});
    this.#disconnect();
    await this.#lease.giveBack();
  }

  #disconnect(): void {
    this.#client?.disconnect();
    this.#client = undefined;
  }
}

const NOT_INSTALLED =
  "The bot needs the package @wecom/aibot-node-sdk. Run `npm install @wecom/aibot-node-sdk`, or set platforms.wecom.webhook_url (WECOM_WEBHOOK_URL) for the robot of a group.";

function none(outcome: SendFailure): NoAnswer {
  return { kind: "none", outcome };
}

export const wecomWords = { title: "WeCom", name: "wecom" };

const WAIT_MS = 60_000;
/** Rate limits of the API, a robot, or a bot in a chat. */
const TOO_FAST = new Set([45009, 45033, 846607]);
const SYSTEM_BUSY = -1;
const WRONG_KEY = 93000;
/** The chat does not exist, or the bot may not write to it. */
const WRONG_CHAT = new Set([40003, 40050, 86001, 86003, 93006, 93008]);

const CREDENTIALS = "Check bot_id (WECOM_BOT_ID) and secret (WECOM_SECRET) of platforms.wecom.";

/** Returns the outcome of a group's robot, whose errors come with status 200. */
export function outcomeOfWebhook(answer: PlatformAnswer<WecomRobotAnswer>): SendOutcome {
  const { status, body } = answer;
  const words = { ...wecomWords, addressKey: "webhook_url", reason: body?.errmsg };
  return status >= 300 || !body ? outcomeOfAnswer(answer, words) : outcomeOfCode(body.errcode, body.errmsg);
}

/** Returns the outcome of a message that the connection rejected or did not confirm. */
function outcomeOfRejection(reason: unknown): SendFailure {
  const { errcode, errmsg } = Object(reason) as { readonly errcode?: unknown; readonly errmsg?: unknown };
  if (typeof errcode === "number") {
    const outcome = outcomeOfCode(errcode, typeof errmsg === "string" ? errmsg : undefined);
    if (outcome.status !== "delivered") return outcome;
  }
  const detail = reason instanceof Error ? reason.message : "";
  if (/not connected/i.test(detail)) return lost("retry", "The connection is gone.");
  const isLate = /timeout/i.test(detail);
  return lost(
    "unknown",
    `${isLate ? "No response arrived in time" : "The connection ended before a response arrived"}. The message may have arrived.`,
  );
}

/** Returns why the connection failed, from the SDK's error. */
function connectFailure(error: Error): SendFailure {
  const refused = /^Authentication failed: (?<reason>.*) \(code: (?<code>-?\d+)\)$/s.exec(
    error.message,
  )?.groups;
  if (!refused) return lost("retry", `The connection failed: ${error.message.slice(0, 200)}`);
  const code = Number(refused["code"]);
  const summary = summaryOf(code, refused["reason"]);
  if (TOO_FAST.has(code)) return throttled(summary, WAIT_MS);
  if (code === SYSTEM_BUSY) return { status: "retry", error: summary };
  return { status: "permanent", error: `${summary} ${CREDENTIALS}` };
}

function lost(status: "retry" | "unknown", what: string): SendFailure {
  return { status, error: `WeCom: ${what}` };
}

function outcomeOfCode(code: number, reason: string | undefined): SendOutcome {
  if (code === 0) return { status: "delivered" };
  const summary = summaryOf(code, reason);
  if (TOO_FAST.has(code)) return throttled(summary, WAIT_MS);
  if (code === SYSTEM_BUSY) return { status: "retry", error: summary };
  if (code === WRONG_KEY) {
    return {
      status: "permanent",
      error: `${summary} Check webhook_url (WECOM_WEBHOOK_URL) of platforms.wecom.`,
    };
  }
  if (WRONG_CHAT.has(code)) {
    return {
      status: "permanent",
      error: `${summary} The user or the group must write to the bot first.`,
    };
  }
  return { status: "permanent", error: summary };
}

function summaryOf(code: number, reason: string | undefined): string {
  // The hint is a link to a page for developers with the request's id.
  const line = (reason ?? "").split(/,? hint:/, 1)[0]?.trim();
  return `WeCom refused the message: ${line || "no reason given"} (${code}).`;
}
