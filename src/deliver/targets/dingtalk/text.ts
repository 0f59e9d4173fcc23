/** A text as DingTalk takes it: a Markdown with a title for the list of chats, or plain. Pure. */
import type { Message } from "../../message.ts";
import { renderParts } from "../../text/parts.ts";
import type { Part } from "../../text/source.ts";
import { cleanText } from "../../text/text.ts";
import type {
  DingtalkAnswer,
  DingtalkRobotAnswer,
  DingtalkToken,
} from "../../../../generated/delivery/client/types.gen.ts";
import {
  type NoAnswer,
  type PlatformAnswer,
  type SendFailure,
  outcomeOfAnswer,
  throttled,
} from "../../platform/call.ts";
import type { SendOutcome } from "../../target.ts";

export type DingtalkText =
  | { readonly kind: "markdown"; readonly title: string; readonly text: string }
  | { readonly kind: "text"; readonly content: string };

const TITLE_CHARACTERS = 40;
/** Of a part, for its title. */
const BEGINNING_UNITS = 400;

interface DingtalkTextOptions {
  /** Bytes of a part before it is written as JSON. */
  readonly limit: number;
  readonly maxParts: number;
  /** Whether what is sent of a part keeps DingTalk's limit. */
  readonly fits: (text: DingtalkText) => boolean;
}

/**
 * The messages that a text makes. `deliver_extra.msgtype: text` sends it plain; `deliver_extra.title` is the title, else
 * the beginning of each part is.
 */
export function dingtalkTexts(
  { text, extra }: Message,
  { limit, maxParts, fits }: DingtalkTextOptions,
): readonly DingtalkText[] {
  const isPlain = extra["msgtype"] === "text";
  const title = typeof extra["title"] === "string" ? cleanText(extra["title"]) : undefined;
  // JSON writes quotes, backslashes and line feeds as two bytes: half is always enough.
  for (const bytes of [limit, Math.floor(limit / 2)]) {
    const format = isPlain ? "plain" : "commonmark";
    const parts = renderParts(text, { format, limit: bytes, unit: "bytes", maxParts });
    const texts = parts.map((part) => toText(part, { isPlain, title }));
    if (bytes < limit || texts.every(fits)) return texts;
  }
  return [];
}

function toText(
  part: Part,
  { isPlain, title }: { readonly isPlain: boolean; readonly title: string | undefined },
): DingtalkText {
  if (isPlain) return { kind: "text", content: part.text };
  return {
    kind: "markdown",
    title: titleOf(title ?? "") || titleOf(beginningOf(part)) || "agentd",
    text: part.text,
  };
}

/** Without its marks. */
function beginningOf({ text }: Part): string {
  const [plain] = renderParts(text.slice(0, BEGINNING_UNITS), {
    format: "plain",
    limit: Number.POSITIVE_INFINITY,
    unit: "utf16",
  });
  return plain?.text ?? "";
}

function titleOf(text: string): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  const characters = Array.from(line.trim());
  return characters.length <= TITLE_CHARACTERS
    ? line.trim()
    : `${characters.slice(0, TITLE_CHARACTERS - 1).join("")}…`;
}

export const dingtalkWords = { title: "DingTalk", name: "dingtalk" };

/** "Custom robot access": who sends more than 20 messages in a minute is not heard for 10 minutes. */
const PENALTY_MS = 600_000;
const BUSY_MS = 60_000;
const SENT_TOO_FAST = 130101;
/** The robot's, the app's and the API's own limits. */
const BUSY = new Set([90002, 90005, 90018, 90030, 410100]);
const SYSTEM_BUSY = -1;
/** The robot's own rules refuse the text, the signature or our address. */
const RULES = 310000;
/** The key is wrong; the group, or the robot in it, is gone or switched off. */
const GONE = new Set([300001, 300005, 40014, 400013, 400101, 400102, 400106]);

const CREDENTIALS =
  "Check client_id (DINGTALK_CLIENT_ID) and client_secret (DINGTALK_CLIENT_SECRET) of platforms.dingtalk.";

/** Of the webhook: errors come with status 200. */
export function outcomeOfWebhook(answer: PlatformAnswer<DingtalkRobotAnswer>): SendOutcome {
  const { status, body } = answer;
  const words = { ...dingtalkWords, addressKey: "webhook_url", reason: body?.errmsg };
  if (status >= 300 || !body) return outcomeOfAnswer(answer, words);
  const { errcode: code, errmsg = "" } = body;
  if (code === 0) return { status: "delivered" };
  const summary = `DingTalk refuses it: ${errmsg.trim() || "no reason given"} (${code}).`;
  if (code === SENT_TOO_FAST) return throttled(summary, PENALTY_MS);
  if (BUSY.has(code)) return throttled(summary, BUSY_MS);
  if (code === SYSTEM_BUSY) return { status: "retry", error: summary };
  const hint = hintOf(code, errmsg);
  return { status: "permanent", error: hint === undefined ? summary : `${summary} ${hint}` };
}

function hintOf(code: number, reason: string): string | undefined {
  if (GONE.has(code)) {
    return "Check webhook_url (DINGTALK_WEBHOOK_URL) of platforms.dingtalk, and whether the robot is still in the group.";
  }
  if (code !== RULES) return undefined;
  if (/keyword/i.test(reason))
    return "The text needs one of the robot's keywords, or the robot another rule.";
  if (/\bip\b|whitelist/i.test(reason)) return "Add this machine's address to those that the robot hears.";
  return "Check webhook_secret (DINGTALK_WEBHOOK_SECRET) of platforms.dingtalk against the robot's rules, and this machine's clock.";
}

/** Of the app's robot. */
export function outcomeOfApp(answer: PlatformAnswer<DingtalkAnswer>): SendOutcome {
  const { status, body } = answer;
  const failure = outcomeOfAnswer(answer, { ...dingtalkWords, reason: reasonOf(body) });
  if (status >= 300) return outcomeOfError(failure, body);
  if (body?.invalidStaffIdList?.length) {
    return {
      status: "permanent",
      error: "DingTalk knows no such user: the chat must be user: and a user id of the organization.",
    };
  }
  if (body?.flowControlledStaffIdList?.length) {
    return throttled("DingTalk lets this user get no more for now.", BUSY_MS);
  }
  return body?.processQueryKey === undefined ? failure : { status: "delivered" };
}

function outcomeOfError(failure: SendFailure, body: DingtalkAnswer | undefined): SendFailure {
  const code = body?.code ?? "";
  if (/QpsLimit|\.tooFast|Throttling/i.test(code)) return throttled(failure.error, BUSY_MS);
  if (code === "unknown.send.result") return { status: "unknown", error: failure.error };
  if (failure.status !== "permanent") return failure;
  if (/staffId|userId/i.test(code))
    return { ...failure, error: `${failure.error} Is the user one of the organization?` };
  if (/openConversationId|group\.disbanded|robotCode|bot\.stopped/i.test(code)) {
    return { ...failure, error: `${failure.error} Is the app's robot still in that group?` };
  }
  return failure;
}

/** The token that was shown is not, or no longer, good. */
export function isTokenRefused({ status, body }: PlatformAnswer<DingtalkAnswer>): boolean {
  return (
    status === 401 ||
    (status === 400 && /^InvalidAuthentication|^invalidParameter\.token/i.test(body?.code ?? ""))
  );
}

/** Why no token was given. */
export function tokenFailure(answer: PlatformAnswer<DingtalkToken> | NoAnswer): SendFailure {
  if (answer.kind === "none") return answer.outcome;
  const { status, body } = answer;
  const failure = outcomeOfAnswer(answer, { ...dingtalkWords, reason: reasonOf(body) });
  if (failure.status !== "permanent" || status < 400) return failure;
  return /QpsLimit/i.test(body?.code ?? "")
    ? throttled(failure.error, BUSY_MS)
    : { status: "permanent", error: `DingTalk gives no token${summary(reasonOf(body))}. ${CREDENTIALS}` };
}

function reasonOf(
  body: { readonly code?: string; readonly message?: string } | undefined,
): string | undefined {
  if (body?.code === undefined) return body?.message;
  return `${body.message?.trim() || "no reason given"} (${body.code})`;
}

function summary(reason: string | undefined): string {
  return reason === undefined ? "" : `: ${reason}`;
}
