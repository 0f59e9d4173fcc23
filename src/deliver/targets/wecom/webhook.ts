import type { WecomRobotMessage } from "../../../../generated/delivery/client/types.gen.ts";
import { registerSecret } from "../../../base/observe/redact.ts";
import type { PlatformSettings } from "../../../config/platform-settings.ts";
import { createCall } from "../../platform/call.ts";
import { throttled } from "../../platform/http-outcome.ts";
import type { Message } from "../../message.ts";
import { Pace } from "../../outbox/pace.ts";
import { sendParts } from "../../deps.ts";
import type { PlatformParts } from "../../platform/platform.ts";
import type { Delivery, SendOptions, SendOutcome } from "../../target.ts";
import { renderParts } from "../../text/parts.ts";
import { parseRobotWebhook, type RobotWebhook } from "../../platform/robot-webhook.ts";
import { outcomeOfWebhook, wecomWords } from "./outcome.ts";

/** "Message push configuration": bytes of a Markdown, and of a plain text. */
const MARKDOWN_LIMIT = 4096;
const PLAIN_LIMIT = 2048;
/** "Message push configuration": 20 messages in a minute, of which one text may take half. */
const PER_MINUTE = 20;
const MAX_PARTS = 10;
const MINUTE_MS = 60_000;
/** "Message push configuration": in a Markdown this begins the mention of a user. */
export const MENTIONS = ["<@"];

export interface WecomRobot {
  /** Milliseconds until it may be written to again; 0: now. */
  readonly waitMs: number;
  send(message: Message, delivery: Delivery, options: SendOptions): Promise<SendOutcome>;
}

export function parseWebhook(url: string): RobotWebhook | undefined {
  return parseRobotWebhook(url, "/cgi-bin/webhook/send", "key");
}

/** The robot of one group, through its webhook. `deliver_extra.msgtype: text` sends plain words. */
export function createWebhookRobot(
  { baseUrl, key }: RobotWebhook,
  settings: PlatformSettings<"wecom">,
  { clock, version }: Pick<PlatformParts, "clock" | "version">,
): WecomRobot {
  registerSecret(key);
  const call = createCall({ title: wecomWords.title, baseUrl, clock, version });
  const pace = new Pace({ clock, limit: PER_MINUTE, windowMs: MINUTE_MS });
  const sendOne = async (body: WecomRobotMessage, options: SendOptions): Promise<SendOutcome> => {
    const waitMs = pace.take();
    if (waitMs > 0) return throttled("The robot may not be written to faster.", waitMs);
    const answer = await call(
      "WecomRobotAnswer",
      (client) => client.wecomRobotSend({ query: { key }, body }),
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
    async send({ text, extra }, delivery, options) {
      const isPlain = extra["msgtype"] === "text";
      const most = isPlain ? PLAIN_LIMIT : MARKDOWN_LIMIT;
      const parts = renderParts(text, {
        format: isPlain ? "plain" : "commonmark",
        limit: Math.min(settings.text_limit ?? most, most),
        unit: "bytes",
        maxParts: MAX_PARTS,
        mentions: MENTIONS,
      });
      return sendParts(parts, { delivery, options }, ({ text: content }) =>
        sendOne(
          isPlain ? { msgtype: "text", text: { content } } : { msgtype: "markdown", markdown: { content } },
          options,
        ),
      );
    },
  };
}
