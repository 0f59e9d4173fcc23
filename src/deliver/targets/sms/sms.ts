import type { SmsMessage } from "../../../../generated/delivery/client/types.gen.ts";
import { registerSecret } from "../../../base/observe/redact.ts";
import type { PlatformSettings } from "../../../config/platform-settings.ts";
import { createCall } from "../../platform/call.ts";
import { readMessage } from "../../message.ts";
import { sendParts } from "../../deps.ts";
import type { Platform } from "../../platform/platform.ts";
import { renderParts } from "../../text/parts.ts";
import { readPhoneNumber } from "../../platform/phone-number.ts";
import { smsOutcome } from "./outcome.ts";

type Settings = PlatformSettings<"sms">;

/** Twilio, Message resource: Body has up to 1600 characters. */
const TEXT_LIMIT = 1600;
/** Ours: each is ten text messages by itself, and costs as much. */
const MAX_PARTS = 10;

/** Twilio's API 2010-04-01, POST Messages.json: text without markup. Repeats are not told apart. */
export const sms: Platform<Settings> = {
  name: "sms",
  missing: ({ account_sid: sid, auth_token: token, from_number: from }) => [
    ...(sid === undefined ? ["account_sid (TWILIO_ACCOUNT_SID)"] : []),
    ...(token === undefined ? ["auth_token (TWILIO_AUTH_TOKEN)"] : []),
    ...(from === undefined ? ["from_number (TWILIO_PHONE_NUMBER)"] : []),
  ],
  create(settings, { clock, version }) {
    const { account_sid: accountSid = "", auth_token: token = "", from_number: from = "" } = settings;
    const { home_channel: home, base_url: baseUrl = "https://api.twilio.com" } = settings;
    registerSecret(token);
    const call = createCall({ title: "Twilio", baseUrl, clock, version });
    const headers = { Authorization: basic(accountSid, token) };
    return {
      name: "sms",
      ...(home === undefined ? {} : { home }),
      async send(delivery, options) {
        const message = readMessage("sms", delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const to = readPhoneNumber(message.chat);
        if (to === undefined) return { status: "permanent", error: findProblem(message.chat) };
        const limit = settings.text_limit ?? TEXT_LIMIT;
        const parts = renderParts(message.text, {
          format: "plain",
          limit,
          unit: "utf16",
          maxParts: MAX_PARTS,
        });
        return sendParts(parts, { delivery, options }, async ({ plain }) => {
          const body: SmsMessage = { To: to, ...senderOf(from), Body: plain };
          const path = { accountSid };
          const answer = await call(
            "SmsAnswer",
            (client) => client.smsCreateMessage({ path, headers, body }),
            options,
          );
          return answer.kind === "none" ? answer.outcome : smsOutcome(answer);
        });
      },
    };
  },
};

/** A messaging service has a key of its own; all else, such as a number or a name, is a sender. */
function senderOf(from: string): Pick<SmsMessage, "From" | "MessagingServiceSid"> {
  if (/^MG[0-9a-f]{32}$/i.test(from)) return { MessagingServiceSid: from };
  return { From: readPhoneNumber(from) ?? from };
}

function basic(name: string, password: string): string {
  const bytes = new TextEncoder().encode(`${name}:${password}`);
  return `Basic ${btoa(String.fromCharCode(...bytes))}`;
}

function findProblem(chat: string): string {
  return chat === ""
    ? "No phone number is named: set deliver_extra.chat_id, or platforms.sms.home_channel (SMS_HOME_CHANNEL)."
    : "The address must be a phone number with + and country code, such as sms:+15550100123; in deliver_extra in quotes, or the + is lost.";
}
