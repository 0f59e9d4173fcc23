/** A text as DingTalk takes it: a Markdown with a title for the list of chats, or plain. Pure. */
import { isPlainText } from "../../platform/robot-webhook.ts";
import { shorten } from "../../../base/text.ts";
import { type Message, type SendOutcome, cleanText } from "../../target.ts";
import { renderParts, type Part } from "../../text/parts.ts";
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

export type DingtalkText =
  | { readonly kind: "markdown"; readonly title: string; readonly text: string }
  | { readonly kind: "text"; readonly content: string };

const TITLE_CHARACTERS = 40;
/** Characters of a part that are read for its title. */
const BEGINNING_UNITS = 400;

interface DingtalkTextOptions {
  /** Most bytes of a part before it becomes JSON. */
  readonly limit: number;
  readonly maxParts: number;
  /** Returns whether the request of a part keeps DingTalk's limit. */
  readonly fits: (text: DingtalkText) => boolean;
}

/**
 * Splits a text into messages. `deliver_extra.msgtype: text` sends plain text, and so do values from outside. `deliver_extra.title` is the title;
 * default: the start of each part.
 */
export function dingtalkTexts(
  { text, extra }: Message,
  { limit, maxParts, fits }: DingtalkTextOptions,
): readonly DingtalkText[] {
  const isPlain = isPlainText({ text, extra });
  const title = typeof extra["title"] === "string" ? cleanText(extra["title"]) : undefined;
  // JSON escapes at most double the size, so half of the limit always fits.
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

/** Returns the start of a part without marks. */
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
  return shorten(line.trim(), TITLE_CHARACTERS);
}

export const dingtalkWords = { title: "DingTalk", name: "dingtalk" };

/** "Custom robot access": after more than 20 messages a minute a robot is blocked for 10 minutes. */
const PENALTY_MS = 600_000;
const BUSY_MS = 60_000;
const SENT_TOO_FAST = 130101;
/** Rate limits of the robot, the app and the API. */
const BUSY = new Set([90002, 90005, 90018, 90030, 410100]);
const SYSTEM_BUSY = -1;
/** The robot's security settings refuse the text, the signature or our address. */
const RULES = 310000;
/** The key is wrong, or the group or its robot is gone or disabled. */
const GONE = new Set([300001, 300005, 40014, 400013, 400101, 400102, 400106]);

const CREDENTIALS =
  "Check client_id (DINGTALK_CLIENT_ID) and client_secret (DINGTALK_CLIENT_SECRET) of platforms.dingtalk.";

/** Returns the outcome of the webhook, whose errors come with status 200. */
export function outcomeOfWebhook(answer: PlatformAnswer<DingtalkRobotAnswer>): SendOutcome {
  const { status, body } = answer;
  const words = { ...dingtalkWords, addressKey: "webhook_url", reason: body?.errmsg };
  if (status >= 300 || !body) return outcomeOfAnswer(answer, words);
  const { errcode: code, errmsg = "" } = body;
  if (code === 0) return { status: "delivered" };
  const summary = `DingTalk refused the message: ${errmsg.trim() || "no reason given"} (${code}).`;
  if (code === SENT_TOO_FAST) return throttled(summary, PENALTY_MS);
  if (BUSY.has(code)) return throttled(summary, BUSY_MS);
  if (code === SYSTEM_BUSY) return { status: "retry", error: summary };
  const hint = hintOf(code, errmsg);
  return { status: "permanent", error: hint === undefined ? summary : `${summary} ${hint}` };
}

function hintOf(code: number, reason: string): string | undefined {
  if (GONE.has(code)) {
    return "Check webhook_url (DINGTALK_WEBHOOK_URL) of platforms.dingtalk, and that the robot is still in the group.";
  }
  if (code !== RULES) return undefined;
  if (/keyword/i.test(reason))
    return "The text must contain one of the robot's keywords. Change the text or the robot's security settings.";
  if (/\bip\b|whitelist/i.test(reason)) return "Add this machine's address to the robot's security settings.";
  return "Check webhook_secret (DINGTALK_WEBHOOK_SECRET) of platforms.dingtalk against the robot's security settings, and check this machine's clock.";
}

/** Returns the outcome of the app's robot. */
export function outcomeOfApp(answer: PlatformAnswer<DingtalkAnswer>): SendOutcome {
  const { status, body } = answer;
  const failure = outcomeOfAnswer(answer, { ...dingtalkWords, reason: reasonOf(body) });
  if (status >= 300) return outcomeOfError(failure, body);
  if (body?.invalidStaffIdList?.length) {
    return {
      status: "permanent",
      error: "DingTalk does not know the user. The chat must be user: and a user id of the organization.",
    };
  }
  if (body?.flowControlledStaffIdList?.length) {
    return throttled("DingTalk limits messages to this user for now.", BUSY_MS);
  }
  return body?.processQueryKey === undefined ? failure : { status: "delivered" };
}

function outcomeOfError(failure: SendFailure, body: DingtalkAnswer | undefined): SendFailure {
  const code = body?.code ?? "";
  if (/QpsLimit|\.tooFast|Throttling/i.test(code)) return throttled(failure.error, BUSY_MS);
  if (code === "unknown.send.result") return { status: "unknown", error: failure.error };
  if (failure.status !== "permanent") return failure;
  if (/staffId|userId/i.test(code))
    return { ...failure, error: `${failure.error} Check that the user belongs to the organization.` };
  if (/openConversationId|group\.disbanded|robotCode|bot\.stopped/i.test(code)) {
    return { ...failure, error: `${failure.error} Check that the app's robot is still in the group.` };
  }
  return failure;
}

/** Returns whether the token is invalid or expired. */
export function isTokenRefused({ status, body }: PlatformAnswer<DingtalkAnswer>): boolean {
  return (
    status === 401 ||
    (status === 400 && /^InvalidAuthentication|^invalidParameter\.token/i.test(body?.code ?? ""))
  );
}

/** Returns why the platform issued no token. */
export function tokenFailure(answer: PlatformAnswer<DingtalkToken> | NoAnswer): SendFailure {
  if (answer.kind === "none") return answer.outcome;
  const { status, body } = answer;
  const failure = outcomeOfAnswer(answer, { ...dingtalkWords, reason: reasonOf(body) });
  if (failure.status !== "permanent" || status < 400) return failure;
  return /QpsLimit/i.test(body?.code ?? "")
    ? throttled(failure.error, BUSY_MS)
    : { status: "permanent", error: `DingTalk issued no token${summary(reasonOf(body))}. ${CREDENTIALS}` };
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
