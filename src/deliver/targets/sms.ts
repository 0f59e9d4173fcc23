import type { SmsMessage, SmsAnswer } from "../../../generated/delivery/client/types.gen.ts";
import { registerSecret } from "../../base/observe.ts";
import type { PlatformSettings } from "../../config/platform-settings.ts";
import { createCall, type PlatformAnswer, outcomeOfAnswer, summarize, throttled } from "../platform/call.ts";
import { readMessage, readPhoneNumber, sendParts, type Platform, type SendOutcome } from "../target.ts";
import { renderParts } from "../text/parts.ts";

type Settings = PlatformSettings<"sms">;

/** Twilio, Message resource: Body has up to 1600 characters. */
const TEXT_LIMIT = 1600;
/** Our own limit: each part costs as much as ten text messages. */
const MAX_PARTS = 10;

/** Twilio API 2010-04-01, POST Messages.json: text without markup. The API does not deduplicate. */
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

/** A messaging service has its own field; a number or a name is the sender. */
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
    ? "The message has no phone number: set deliver_extra.chat_id, or platforms.sms.home_channel (SMS_HOME_CHANNEL)."
    : "The address must be a phone number with + and country code, such as sms:+15550100123; quote it in deliver_extra, or YAML drops the +.";
}

const words = { title: "Twilio", name: "sms" };
const SENDER = "Check platforms.sms.from_number (TWILIO_PHONE_NUMBER).";
const CREDENTIALS =
  "Check platforms.sms.account_sid (TWILIO_ACCOUNT_SID) and auth_token (TWILIO_AUTH_TOKEN).";

/** Twilio, Error and Warning Dictionary: permanent errors and what to do. */
const permanent: ReadonlyMap<number, string> = new Map([
  [20_003, CREDENTIALS],
  [20_005, "The account is not active: see the Twilio console."],
  [20_404, CREDENTIALS],
  [21_211, "It is not a valid phone number. Check the address."],
  [21_212, SENDER],
  [21_266, "Sender and recipient are the same number. Check the address."],
  [21_408, "Allow the country in the console: Messaging, Geo permissions."],
  [21_603, SENDER],
  [21_606, SENDER],
  [21_608, "A trial account sends to verified numbers only: verify this one, or upgrade the account."],
  [21_610, "The recipient has replied STOP and must text START first."],
  [21_612, `Twilio has no route from the sender to this number. ${SENDER}`],
  [21_614, "It is not a mobile number. Check the address."],
  [21_617, "The text is too long: set platforms.sms.text_limit to 1600 or less."],
  [21_659, SENDER],
  [21_660, SENDER],
  [30_003, "The phone is unreachable. Check the number, and that the phone is on."],
  [30_004, "The recipient or their network blocks the message."],
  [30_005, "The number is not in use. Check the address."],
  [30_006, "It is a landline, or its network accepts no messages. Check the address."],
  [30_007, "The network filters it as spam. Change the text, or register the sender with the networks."],
  [30_034, "The sender must be registered for the United States (A2P 10DLC)."],
]);
/** Too many requests, and a full queue of the sender. */
const throttling = new Set([20_429, 21_611, 14_107]);
/** States of an accepted message. */
const taken = new Set(["queued", "accepted", "scheduled", "sending", "sent", "delivered"]);

function smsOutcome(answer: PlatformAnswer<SmsAnswer>): SendOutcome {
  const { status, body } = answer;
  if (!body) return outcomeOfAnswer(answer, words);
  const code = body.code ?? undefined;
  if (status < 300 && code === undefined) {
    return taken.has(String(body.status)) ? { status: "delivered" } : refused(answer, body);
  }
  const reason = reasonOf(body.message, code);
  const summary = summarize(answer, { ...words, reason });
  if (code !== undefined && throttling.has(code)) return throttled(summary, answer.retryAfterMs);
  const hint = permanent.get(code ?? 0);
  if (hint !== undefined && status !== 429 && status < 500) {
    return { status: "permanent", error: `${summary} ${hint}` };
  }
  return outcomeOfAnswer(answer, { ...words, reason });
}

/** Returns the outcome of a message that Twilio created and that failed at once, or has an unknown state. */
function refused(answer: PlatformAnswer<SmsAnswer>, body: SmsAnswer): SendOutcome {
  const state = String(body.status);
  if (!["failed", "undelivered", "canceled"].includes(state)) return outcomeOfAnswer(answer, words);
  const code = body.error_code ?? undefined;
  const reason = reasonOf(body.error_message ?? `the message is ${state}`, code);
  const hint = permanent.get(code ?? 0) ?? "See the message in the Twilio console.";
  return { status: "permanent", error: `${summarize(answer, { ...words, reason })} ${hint}` };
}

function reasonOf(message: string | undefined, code: number | undefined): string {
  const line = (message ?? "").trim().replace(/\.$/, "");
  return code === undefined ? line : `${line} (${code})`.trim();
}
