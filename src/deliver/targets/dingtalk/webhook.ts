import type { DingtalkRobotMessage } from "../../../../generated/delivery/client/types.gen.ts";
import type { Clock } from "../../../base/clock.ts";
import { hmacSha256 } from "../../../base/digest.ts";
import { registerSecret } from "../../../base/observe/redact.ts";
import type { PlatformSettings } from "../../../config/platform-settings.ts";
import { createCall } from "../../platform/call.ts";
import { throttled } from "../../platform/http-outcome.ts";
import type { Message } from "../../message.ts";
import { Pace } from "../../outbox/pace.ts";
import { sendParts } from "../../deps.ts";
import type { PlatformParts } from "../../platform/platform.ts";
import type { Delivery, SendOptions, SendOutcome } from "../../target.ts";
import { dingtalkWords, outcomeOfWebhook } from "./outcome.ts";
import { dingtalkTexts, type DingtalkText } from "./text.ts";
import { parseRobotWebhook, type RobotWebhook } from "../../platform/robot-webhook.ts";

/** Error 460101 of the robot: more is too long. */
const MAX_BODY_BYTES = 20_000;
/** Bytes of a text: as JSON it is longer. */
const TEXT_LIMIT = 15_000;
const MAX_TEXT_LIMIT = 19_000;
/** "Custom robot access": 20 messages in a minute, of which one text may take half. */
const PER_MINUTE = 20;
const MAX_PARTS = 10;
const MINUTE_MS = 60_000;

export interface WebhookRobot {
  /** Milliseconds until it may be written to again; 0: now. */
  readonly waitMs: number;
  send(message: Message, delivery: Delivery, options: SendOptions): Promise<SendOutcome>;
}

export function parseWebhook(url: string): RobotWebhook | undefined {
  return parseRobotWebhook(url, "/robot/send", "access_token");
}

/** The robot of one group, through its webhook. It is not written to faster than it wants: it would punish that. */
export function createWebhookRobot(
  { baseUrl, key }: RobotWebhook,
  { webhook_secret: secret = "", ...settings }: PlatformSettings<"dingtalk">,
  { clock, version }: Pick<PlatformParts, "clock" | "version">,
): WebhookRobot {
  registerSecret(key);
  registerSecret(secret.trim());
  const call = createCall({ title: dingtalkWords.title, baseUrl, clock, version });
  const pace = new Pace({ clock, limit: PER_MINUTE, windowMs: MINUTE_MS });
  const sendOne = async (body: DingtalkRobotMessage, options: SendOptions): Promise<SendOutcome> => {
    const waitMs = pace.take();
    if (waitMs > 0) return throttled("The robot may not be written to faster.", waitMs);
    const query = { access_token: key, ...signed(secret.trim(), clock) };
    const answer = await call(
      "DingtalkRobotAnswer",
      (client) => client.dingtalkRobotSend({ query, body }),
      options,
    );
    const outcome = answer.kind === "none" ? answer.outcome : outcomeOfWebhook(answer);
    if (outcome.status === "retry" && outcome.isThrottled) pace.hold(outcome.afterMs ?? MINUTE_MS);
    return outcome;
  };
  return {
    get waitMs() {
      return pace.waitMs;
    },
    async send(message, delivery, options) {
      const fits = (text: DingtalkText) => sizeOf(toBody(text)) <= MAX_BODY_BYTES;
      const limit = Math.min(settings.text_limit ?? TEXT_LIMIT, MAX_TEXT_LIMIT);
      const texts = dingtalkTexts(message, { limit, maxParts: MAX_PARTS, fits });
      return sendParts(texts, { delivery, options }, (text) => sendOne(toBody(text), options));
    },
  };
}

/** "Custom robot security settings": the signature is good for an hour. */
function signed(secret: string, clock: Clock): { readonly timestamp?: string; readonly sign?: string } {
  if (secret === "") return {};
  const timestamp = String(clock.now());
  const mac = hmacSha256(secret, `${timestamp}\n${secret}`);
  return { timestamp, sign: btoa(String.fromCharCode(...mac)) };
}

function toBody(text: DingtalkText): DingtalkRobotMessage {
  return text.kind === "text"
    ? { msgtype: "text", text: { content: text.content } }
    : { msgtype: "markdown", markdown: { title: text.title, text: text.text } };
}

function sizeOf(body: DingtalkRobotMessage): number {
  return new TextEncoder().encode(JSON.stringify(body)).length;
}
