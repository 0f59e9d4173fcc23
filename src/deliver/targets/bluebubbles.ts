import type { BluebubblesAnswer, BluebubblesMessage } from "../../../generated/delivery/client/types.gen.ts";
import { MASK, registerSecret } from "../../base/observe.ts";
import { isRecord } from "../../base/data.ts";
import type { PlatformSettings } from "../../config/platform-settings.ts";
import { createCall, type PlatformAnswer, outcomeOfAnswer } from "../platform/call.ts";
import { readMessage, readPhoneNumber, sendParts, type Platform, type SendOutcome } from "../target.ts";
import { renderParts } from "../text/parts.ts";

type Settings = PlatformSettings<"bluebubbles">;

const words = { title: "BlueBubbles", name: "bluebubbles" };
/** Our own limit: neither the server nor iMessage has one. */
const TEXT_LIMIT = 4000;

/**
 * BlueBubbles Server's REST API, POST /api/v1/message/text. It refuses a `tempGuid` only while a message with that
 * value is being sent, so it does not deduplicate reliably.
 */
export const bluebubbles: Platform<Settings> = {
  name: words.name,
  missing: ({ base_url: baseUrl, password }) => [
    ...(baseUrl === undefined ? ["base_url (BLUEBUBBLES_SERVER_URL)"] : []),
    ...(password === undefined ? ["password (BLUEBUBBLES_PASSWORD)"] : []),
  ],
  create({ base_url: baseUrl = "", password = "", home_channel: home, ...settings }, { clock, version }) {
    registerSecret(password);
    const call = createCall({ title: words.title, baseUrl, clock, version });
    const method = settings.method ?? "apple-script";
    return {
      name: words.name,
      ...(home === undefined ? {} : { home }),
      async send(delivery, options) {
        const message = readMessage(words.name, delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const chatGuid = guidOf(message.chat);
        if (chatGuid === undefined) return { status: "permanent", error: findProblem(message.chat) };
        const limit = settings.text_limit ?? TEXT_LIMIT;
        const parts = renderParts(message.text, { format: "plain", limit, unit: "utf16" });
        return sendParts(parts, { delivery, options }, async ({ plain }, index) => {
          const body: BluebubblesMessage = {
            chatGuid,
            tempGuid: `${delivery.id}-${index + 1}`,
            message: plain,
            method,
            ...(index === 0 && method === "private-api" ? replyOf(message.extra) : {}),
          };
          const answer = await call(
            "BluebubblesAnswer",
            (client) => client.bluebubblesSendText({ query: { password }, body }),
            options,
          );
          return answer.kind === "none" ? answer.outcome : outcomeOf(answer, password);
        });
      },
    };
  },
};

/** AppleScript cannot reply: without the private API the message is sent as a normal one. */
function replyOf(extra: Readonly<Record<string, unknown>>): Pick<BluebubblesMessage, "selectedMessageGuid"> {
  const guid = extra["selectedMessageGuid"] ?? extra["reply_to"];
  return typeof guid === "string" && guid !== "" ? { selectedMessageGuid: guid } : {};
}

function outcomeOf(answer: PlatformAnswer<BluebubblesAnswer>, password: string): SendOutcome {
  const { status, body } = answer;
  if (status === 200 && body?.status === 200) return { status: "delivered" };
  // The password is part of every URL and may be too short for the redactor.
  const reason = reasonIn(body)?.replaceAll(password, MASK);
  if (status === 400 && /already queued/i.test(reason ?? "")) {
    return {
      status: "unknown",
      error: "BlueBubbles is still sending this message for an earlier attempt. It may still arrive.",
    };
  }
  const failure = outcomeOfAnswer(answer, { ...words, reason });
  return status === 401
    ? { ...failure, error: `${failure.error} (password, BLUEBUBBLES_PASSWORD)` }
    : failure;
}

function reasonIn({ error, message }: Partial<BluebubblesAnswer> = {}): string | undefined {
  const detail = isRecord(error) ? error["message"] : error;
  return typeof detail === "string" ? detail : message;
}

/** Returns the guid of a chat: given as such, or of a phone number or an email address, with any service. */
function guidOf(chat: string): string | undefined {
  if (/^[A-Za-z]{3,16};[+-];[^\s;]{1,128}$/.test(chat)) return chat;
  const phone = readPhoneNumber(chat);
  if (phone !== undefined) return `any;-;${phone}`;
  return /^[^\s@;]{1,64}@[^\s@;]{1,128}\.[^\s@;]{2,64}$/.test(chat) ? `any;-;${chat}` : undefined;
}

function findProblem(chat: string): string {
  return chat === ""
    ? "The message has no chat: set deliver_extra.chat_id, or platforms.bluebubbles.home_channel (BLUEBUBBLES_HOME_CHANNEL)."
    : "The chat must be a phone number with + and country code, an email address, or the guid of a chat, such as iMessage;-;+15550100123.";
}
