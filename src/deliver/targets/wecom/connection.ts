import type { WSClient } from "@wecom/aibot-node-sdk";
import { abortable } from "../../../base/deadline.ts";
import type { Clock } from "../../../base/clock.ts";
import type { Log } from "../../../base/observe/log.ts";
import type { Store } from "../../../store/store.ts";
import type { NoAnswer, SendFailure } from "../../platform/call.ts";
import { throttled } from "../../platform/http-outcome.ts";
import { Singleton } from "../../outbox/singleton.ts";
import type { SendOutcome } from "../../target.ts";
import { connectFailure, lost, outcomeOfRejection } from "./outcome.ts";

/** What is used of `@wecom/aibot-node-sdk`. */
export interface WecomSdk {
  readonly WSClient: typeof WSClient;
}

export interface WecomConnectionOptions {
  readonly botId: string;
  readonly secret: string;
  /** Default: WeCom's own. */
  readonly url: string | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly store: Store;
  /** Undefined: it is not installed. */
  readonly load: () => Promise<WecomSdk | undefined>;
}

type Opened = { readonly kind: "open"; readonly client: WSClient } | NoAnswer;

const CONNECT_MS = 15_000;
/** Nothing is received through it, so it is given up when nothing was sent for so long. */
const IDLE_MS = 300_000;
/** After somebody else has taken the connection: to take it back at once would begin a fight. */
const HOLD_OFF_MS = 300_000;
/** Until the process that has the connection should have seen the message. */
const ELSEWHERE_MS = 5_000;
const MAX_FRAME_BYTES = 4_194_304;
const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** The one connection that a bot may have: opened with the first message, by the one process that may. */
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

  /** One message; `content` is Markdown. */
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
    if (waitMs > 0) return none(throttled("Something else has opened the bot's connection.", waitMs));
    this.#cancelRest();
    if (!(await this.#lease.take())) {
      return none(throttled("Another process of agentd has the bot's connection, and sends.", ELSEWHERE_MS));
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
    // Who connects again, and when, is ours to say: it must be the process that holds the lease.
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
    // The attempt that asked for it may be over.
    this.#restAfter(IDLE_MS);
    return { kind: "open", client };
  }

  async #fail(outcome: SendFailure): Promise<Opened> {
    const isHeldOff = this.#heldOffUntilMs > this.#options.clock.now();
    if (!isHeldOff || this.#isClosed) await this.#lease.giveBack();
    return none(outcome);
  }

  /** The lease stays ours meanwhile, so that no other process of agentd opens a connection either. */
  #kickedOut(client: WSClient): void {
    const { clock, log } = this.#options;
    if (this.#client === client) this.#client = undefined;
    this.#heldOffUntilMs = clock.now() + HOLD_OFF_MS;
    this.#restAfter(HOLD_OFF_MS);
    log.warn(
      "something else has opened the connection of the WeCom bot, which allows one only; messages wait. Stop the other one, or give agentd a bot of its own",
      { waitMs: HOLD_OFF_MS },
    );
  }

  #leaseLost(): void {
    this.#options.log.warn(
      "another process of agentd may have the connection of the WeCom bot now; ours is closed",
    );
    this.#disconnect();
  }

  #restAfter(ms: number): void {
    this.#cancelRest();
    this.#cancelRest = this.#options.clock.after(ms, () => void this.#rest());
  }

  async #rest(): Promise<void> {
    this.#cancelRest();
    this.#disconnect();
    // One that is being opened sees that we are closed, and gives the lease back itself.
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
  "The package @wecom/aibot-node-sdk is not installed, which the bot's connection needs: `npm install @wecom/aibot-node-sdk`, or set platforms.wecom.webhook_url (WECOM_WEBHOOK_URL) for the robot of a group.";

function none(outcome: SendFailure): NoAnswer {
  return { kind: "none", outcome };
}
