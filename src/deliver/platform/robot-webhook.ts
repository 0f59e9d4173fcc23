import type { Clock } from "../../base/time.ts";
import {
  readMessage,
  sendParts,
  type Delivery,
  type Message,
  type SendOptions,
  type SendOutcome,
  type Target,
} from "../target.ts";
import { throttled } from "./call.ts";

/** Webhooks of group robots, as DingTalk and WeCom show them: a URL with a key in its query. Pure. */
export interface RobotWebhook {
  /** Without the path and the query, and without a slash at the end. */
  readonly baseUrl: string;
  /** Anyone with this key can write to the group. */
  readonly key: string;
}

/** The chat name that selects the webhook instead of the app or the bot. */
const WEBHOOK_CHAT = "webhook";

/** Parses the webhook's URL. Returns undefined when `url` does not end in `path` with a value for `query`. */
export function parseRobotWebhook(url: string, path: string, query: string): RobotWebhook | undefined {
  if (!URL.canParse(url)) return undefined;
  const { origin, pathname, searchParams } = new URL(url);
  const key = searchParams.get(query);
  if (!key || !pathname.endsWith(path)) return undefined;
  return { baseUrl: `${origin}${pathname.slice(0, -path.length)}`, key };
}

/**
 * Whether a robot gets a message as plain text: when `deliver_extra.msgtype` says so, and for values from outside, since
 * the Markdown of these platforms has no escapes.
 */
export function isPlainText({ text, extra }: Pick<Message, "text" | "extra">): boolean {
  return extra["msgtype"] === "text" || typeof text !== "string";
}

/** Sends the messages of a target: the robot of one group, or the app or bot that writes to many chats. */
export interface RobotSender {
  send(message: Message, delivery: Delivery, options: SendOptions): Promise<SendOutcome>;
}

export interface GroupRobot extends RobotSender {
  /** Milliseconds until the next message is allowed; 0: now. */
  readonly waitMs: number;
}

interface RobotTargetOptions extends Pick<Target, "name" | "isReady" | "close"> {
  readonly home: string | undefined;
  readonly webhook: GroupRobot | undefined;
  readonly app: RobotSender | undefined;
  /** The errors of a message without a chat, and of one to a chat, whose sender is not configured. */
  readonly noChat: string;
  readonly noApp: string;
}

/** Returns the target that sends messages without a chat, or to `webhook`, to the group, and the others through the app. */
export function createRobotTarget(options: RobotTargetOptions): Target {
  const { name, isReady, close, webhook, app, noChat, noApp } = options;
  const home = (app && options.home) ?? (webhook && WEBHOOK_CHAT);
  return {
    name,
    ...(home === undefined ? {} : { home }),
    ...(isReady ? { isReady } : {}),
    ...(close ? { close } : {}),
    async send(delivery, sendOptions) {
      const message = readMessage(name, delivery);
      if (!message) return { status: "permanent", error: "The message has no text." };
      const isForWebhook = message.chat === "" || message.chat === WEBHOOK_CHAT;
      const robot = isForWebhook ? webhook : app;
      if (robot) return robot.send(message, delivery, sendOptions);
      return { status: "permanent", error: isForWebhook ? noChat : noApp };
    },
  };
}

/** DingTalk, "Custom robot access", and WeCom, "Message push configuration": 20 messages a minute. */
const PER_MINUTE = 20;
const MINUTE_MS = 60_000;

interface GroupRobotOptions<Body> {
  readonly clock: Clock;
  /** Returns the requests of a message; they may use half of what a minute allows. */
  readonly bodiesOf: (message: Message) => readonly Body[];
  readonly post: (body: Body, options: SendOptions) => Promise<SendOutcome>;
}

/** Returns the robot of one group, which keeps the platform's rate limit: above it, the robot would be blocked. */
export function createGroupRobot<Body>({ clock, bodiesOf, post }: GroupRobotOptions<Body>): GroupRobot {
  const pace = new Pace({ clock, limit: PER_MINUTE, windowMs: MINUTE_MS });
  const sendOne = async (body: Body, options: SendOptions): Promise<SendOutcome> => {
    const waitMs = pace.take();
    if (waitMs > 0) return throttled("The rate limit of the robot is reached.", waitMs);
    const outcome = await post(body, options);
    if (outcome.status === "retry" && outcome.isThrottled) pace.hold(outcome.afterMs ?? MINUTE_MS);
    return outcome;
  };
  return {
    get waitMs() {
      return pace.waitMs;
    },
    send: (message, delivery, options) =>
      sendParts(bodiesOf(message), { delivery, options }, (body) => sendOne(body, options)),
  };
}

interface PaceOptions {
  readonly clock: Clock;
  /** Most calls in any window of `windowMs`. */
  readonly limit: number;
  readonly windowMs: number;
}

/** Client-side rate limit for a platform that penalizes senders above its limit. Counts in this process only. */
export class Pace {
  readonly #options: PaceOptions;
  #taken: number[] = [];
  #heldUntilMs = 0;
  #lastMs = 0;

  constructor(options: PaceOptions) {
    this.#options = options;
  }

  /** Returns 0 and counts the call, or returns the milliseconds to wait and counts nothing. */
  take(): number {
    const waitMs = this.waitMs;
    if (waitMs === 0) this.#taken.push(this.#lastMs);
    return waitMs;
  }

  /** What {@link take} would return. */
  get waitMs(): number {
    const { limit, windowMs } = this.#options;
    const nowMs = this.#now();
    while (this.#taken[0] !== undefined && this.#taken[0] <= nowMs - windowMs) this.#taken.shift();
    const [oldestMs = 0] = this.#taken;
    const freeAtMs = this.#taken.length < limit ? 0 : oldestMs + windowMs;
    return Math.max(0, freeAtMs - nowMs, this.#heldUntilMs - nowMs);
  }

  /** Blocks all calls for `ms`, as the platform asked. */
  hold(ms: number): void {
    this.#heldUntilMs = Math.max(this.#heldUntilMs, this.#now() + ms);
  }

  /** When the clock is set back, the stored times move along, so that no call waits for the old time. */
  #now(): number {
    const nowMs = this.#options.clock.now();
    const backMs = this.#lastMs - nowMs;
    this.#lastMs = nowMs;
    if (backMs <= 0) return nowMs;
    this.#taken = this.#taken.map((ms) => ms - backMs);
    this.#heldUntilMs -= backMs;
    return nowMs;
  }
}
