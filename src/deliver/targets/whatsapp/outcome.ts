/** What the answers of the Cloud API and of bridges mean. Pure. */
import type {
  WhatsappAnswer,
  WhatsappBridgeAnswer,
} from "../../../../generated/delivery/client/types.gen.ts";
import { isRecord } from "../../../base/json/schema.ts";
import type { PlatformAnswer } from "../../platform/call.ts";
import { outcomeOfAnswer, saidIn, throttled } from "../../platform/http-outcome.ts";
import type { SendOutcome } from "../../target.ts";

const words = { title: "WhatsApp", name: "whatsapp" };
const bridgeWords = { ...words, title: "The WhatsApp bridge", addressKey: "bridge_url" };
const CREDENTIALS = "Check platforms.whatsapp.access_token (WHATSAPP_CLOUD_ACCESS_TOKEN).";
const PERMISSION =
  "Has the token the permission whatsapp_business_messaging, and is platforms.whatsapp.phone_number_id right?";
const PARAMETER = "Check the chat, deliver_extra, platforms.whatsapp.phone_number_id and api_version.";
const ACCOUNT = "See the account in the WhatsApp Manager.";

/** WhatsApp Business Platform, Cloud API error codes. */
const throttling = new Set([4, 80_007, 130_429, 131_056]);
const passing = new Set([1, 2, 131_000, 131_016, 131_048, 131_057, 133_004]);
const permanent: ReadonlyMap<number, string> = new Map([
  [0, CREDENTIALS],
  [3, PERMISSION],
  [10, PERMISSION],
  [33, "The sending number is gone. Check platforms.whatsapp.phone_number_id."],
  [100, PARAMETER],
  [190, CREDENTIALS],
  [368, ACCOUNT],
  [130_497, "The account may not write to people in that country."],
  [131_005, PERMISSION],
  [131_008, PARAMETER],
  [131_009, PARAMETER],
  [131_021, "Sender and receiver are the same number. Check the chat."],
  [
    131_026,
    "Has the receiver WhatsApp under this number, in a current version, and accepted its terms? Check the chat.",
  ],
  [131_030, "A test number writes to allowed numbers only: add this one in the App Dashboard."],
  [131_031, ACCOUNT],
  [131_042, "Something is wrong with the payment method of the account."],
  [131_045, "Register the sending number with the Cloud API."],
  [
    131_047,
    "The receiver has not written within the last 24 hours: then WhatsApp takes templates only. Let them write first, or use another platform.",
  ],
  [131_051, PARAMETER],
  [133_010, "Register the sending number with the Cloud API."],
]);

export function cloudOutcome(answer: PlatformAnswer<WhatsappAnswer>): SendOutcome {
  const { status, body, retryAfterMs } = answer;
  if (status < 300 && body?.messages !== undefined) return { status: "delivered" };
  if (!body?.error) return outcomeOfAnswer(answer, words);
  const { code, message = "", error_data: data } = body.error;
  const details = isRecord(data) && typeof data["details"] === "string" ? data["details"] : undefined;
  const reason = `${details ?? message} (${code})`;
  const said = saidIn(answer, { ...words, reason });
  if (throttling.has(code)) return throttled(said, retryAfterMs);
  if (passing.has(code)) return { status: "retry", error: said };
  const hint = permanent.get(code) ?? (code >= 200 && code < 300 ? PERMISSION : undefined);
  if (hint !== undefined) return { status: "permanent", error: `${said} ${hint}` };
  return outcomeOfAnswer(answer, { ...words, reason });
}

/** Of the bridge that contracts describe: 503 while it is not connected, 400 when a field lacks, 500 for all else. */
export function bridgeOutcome(answer: PlatformAnswer<WhatsappBridgeAnswer>): SendOutcome {
  const { status, body } = answer;
  if (status < 300 && body?.success === true) return { status: "delivered" };
  const failure = outcomeOfAnswer(answer, { ...bridgeWords, reason: body?.error });
  if (status < 300 && body?.success === false) {
    return {
      status: "retry",
      error: `The WhatsApp bridge could not send: ${body.error ?? "it says no more"}.`,
    };
  }
  if (status === 503) return { ...failure, error: `${failure.error} Is the bridge signed in to WhatsApp?` };
  return failure;
}
