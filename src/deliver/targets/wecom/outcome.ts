/** What WeCom's answers mean: "Message push configuration" (robots of groups), "Long connection of intelligent robots" and "Global error codes" of its documents. Pure. */
import type { WecomRobotAnswer } from "../../../../generated/delivery/client/types.gen.ts";
import type { PlatformAnswer, SendFailure } from "../../platform/call.ts";
import { outcomeOfAnswer, throttled } from "../../platform/http-outcome.ts";
import type { SendOutcome } from "../../target.ts";

export const wecomWords = { title: "WeCom", name: "wecom" };

const WAIT_MS = 60_000;
/** The calls of an API, of a robot, or of a bot to a chat are used up for now. */
const TOO_FAST = new Set([45009, 45033, 846607]);
const SYSTEM_BUSY = -1;
const WRONG_KEY = 93000;
/** No such chat, or none that the bot may write to. */
const WRONG_CHAT = new Set([40003, 40050, 86001, 86003, 93006, 93008]);

const CREDENTIALS = "Check bot_id (WECOM_BOT_ID) and secret (WECOM_SECRET) of platforms.wecom.";

/** Of a group's robot: errors come with status 200. */
export function outcomeOfWebhook(answer: PlatformAnswer<WecomRobotAnswer>): SendOutcome {
  const { status, body } = answer;
  const words = { ...wecomWords, addressKey: "webhook_url", reason: body?.errmsg };
  return status >= 300 || !body ? outcomeOfAnswer(answer, words) : outcomeOfCode(body.errcode, body.errmsg);
}

/** What the bot's connection said to a message, or why it said nothing. */
export function outcomeOfRejection(reason: unknown): SendFailure {
  const { errcode, errmsg } = Object(reason) as { readonly errcode?: unknown; readonly errmsg?: unknown };
  if (typeof errcode === "number") {
    const outcome = outcomeOfCode(errcode, typeof errmsg === "string" ? errmsg : undefined);
    if (outcome.status !== "delivered") return outcome;
  }
  const detail = reason instanceof Error ? reason.message : "";
  if (/not connected/i.test(detail)) return lost("retry", "The connection is gone.");
  const isLate = /timeout/i.test(detail);
  return lost(
    "unknown",
    `${isLate ? "There was no answer in time" : "The connection ended before there was an answer"}. The message may have arrived.`,
  );
}

/** Why there is no connection, as the SDK tells it. */
export function connectFailure(error: Error): SendFailure {
  const refused = /^Authentication failed: (?<reason>.*) \(code: (?<code>-?\d+)\)$/s.exec(
    error.message,
  )?.groups;
  if (!refused) return lost("retry", `There is no connection: ${error.message.slice(0, 200)}`);
  const code = Number(refused["code"]);
  const said = sayOf(code, refused["reason"]);
  if (TOO_FAST.has(code)) return throttled(said, WAIT_MS);
  if (code === SYSTEM_BUSY) return { status: "retry", error: said };
  return { status: "permanent", error: `${said} ${CREDENTIALS}` };
}

export function lost(status: "retry" | "unknown", what: string): SendFailure {
  return { status, error: `WeCom: ${what}` };
}

function outcomeOfCode(code: number, reason: string | undefined): SendOutcome {
  if (code === 0) return { status: "delivered" };
  const said = sayOf(code, reason);
  if (TOO_FAST.has(code)) return throttled(said, WAIT_MS);
  if (code === SYSTEM_BUSY) return { status: "retry", error: said };
  if (code === WRONG_KEY) {
    return {
      status: "permanent",
      error: `${said} Check webhook_url (WECOM_WEBHOOK_URL) of platforms.wecom.`,
    };
  }
  if (WRONG_CHAT.has(code)) {
    return {
      status: "permanent",
      error: `${said} Has the user or the group written to the bot? Only then it may answer.`,
    };
  }
  return { status: "permanent", error: said };
}

function sayOf(code: number, reason: string | undefined): string {
  // What stands behind the hint is a link to a page for developers, with the request's id.
  const line = (reason ?? "").split(/,? hint:/, 1)[0]?.trim();
  return `WeCom refuses it: ${line || "no reason given"} (${code}).`;
}
