import { registerSecret } from "../../../base/observe/redact.ts";
import type { PlatformSettings } from "../../../config/platform-settings.ts";
import type { Message } from "../../message.ts";
import { sendParts } from "../../deps.ts";
import type { PlatformParts } from "../../platform/platform.ts";
import type { Delivery, SendOptions, SendOutcome } from "../../target.ts";
import { renderParts } from "../../text/parts.ts";
import { MENTIONS } from "./webhook.ts";
import { WecomConnection, type WecomSdk } from "./connection.ts";

/** "Long connection of intelligent robots": bytes of a Markdown; plain texts are not taken. */
const TEXT_LIMIT = 20_480;
const MAX_PARTS = 10;
const CHAT = /^[\w@.-]{1,128}$/;

export interface WecomBot {
  readonly isReady: boolean;
  send(message: Message, delivery: Delivery, options: SendOptions): Promise<SendOutcome>;
  close(): Promise<void>;
}

/** An intelligent bot: writes to the users and groups that have written to it. */
export function createWecomBot(
  { bot_id: id = "", secret = "", ...settings }: PlatformSettings<"wecom">,
  { clock, log, store }: PlatformParts,
  load: () => Promise<WecomSdk | undefined> = loadSdk,
): WecomBot {
  registerSecret(secret.trim());
  const connection = new WecomConnection({
    botId: id.trim(),
    secret: secret.trim(),
    url: settings.websocket_url,
    clock,
    log,
    store,
    load,
  });
  const limit = Math.min(settings.text_limit ?? TEXT_LIMIT, TEXT_LIMIT);
  return {
    get isReady() {
      return connection.isReady;
    },
    async send({ chat, text }, delivery, options) {
      if (!CHAT.test(chat)) {
        return { status: "permanent", error: "The chat must be the id of a user or of a group." };
      }
      const parts = renderParts(text, {
        format: "commonmark",
        limit,
        unit: "bytes",
        maxParts: MAX_PARTS,
        mentions: MENTIONS,
      });
      return sendParts(parts, { delivery, options }, (part) =>
        connection.send(chat, part.text, options.signal),
      );
    },
    close: () => connection.close(),
  };
}

/**
 * Optional, and seldom needed: loaded with the first message. Of its CommonJS, bundlers keep the names under `default`
 * alone.
 */
async function loadSdk(): Promise<WecomSdk | undefined> {
  try {
    return (await import("@wecom/aibot-node-sdk")).default;
  } catch {
    return undefined;
  }
}
