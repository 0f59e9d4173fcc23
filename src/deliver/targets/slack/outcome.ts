/** What Slack's answers mean: the errors of chat.postMessage and "Rate limits" of its documentation. Pure. */
import type { SlackAnswer } from "../../../../generated/delivery/client/types.gen.ts";
import type { PlatformAnswer } from "../../platform/call.ts";
import { outcomeOfAnswer, throttled, type OutcomeWords } from "../../platform/http-outcome.ts";
import type { SendOutcome } from "../../target.ts";

const token = "Check platforms.slack.token (SLACK_BOT_TOKEN).";
const admins = "Ask those who administer the workspace.";
const rateLimits = new Set(["ratelimited", "rate_limited"]);
const passing = new Set([
  "internal_error",
  "fatal_error",
  "request_timeout",
  "service_unavailable",
  "team_added_to_org",
  "external_channel_migrating",
]);
/** What to do about errors, by name. */
const remedies: ReadonlyMap<string, string> = new Map([
  ["not_in_channel", "Invite the bot to the channel: /invite @its-name."],
  [
    "channel_not_found",
    "Is the channel's id right? A private one is not found until the bot is invited to it.",
  ],
  ["is_archived", "Name another channel, or bring this one back."],
  ["cannot_reply_to_message", "Name the message that began the thread, or none."],
  ["thread_not_found", "Is the thread still there?"],
  ["msg_too_long", "Set platforms.slack.text_limit lower."],
  ["message_limit_exceeded", `The workspace has used up its messages. ${admins}`],
  ["missing_scope", "Add the scope to the app, and install it again."],
  ["restricted_action", `A setting of the workspace forbids it. ${admins}`],
  [
    "restricted_action_read_only_channel",
    "The channel is for reading: let the bot write there, or name another.",
  ],
  ["restricted_action_thread_only_channel", "The channel takes answers in threads alone: name a thread."],
  ["restricted_action_non_threadable_channel", "The channel takes no threads: name none."],
  ["ekm_access_denied", admins],
  ["team_access_not_granted", "Grant the app the workspace."],
  ...[
    "invalid_auth",
    "not_authed",
    "account_inactive",
    "token_revoked",
    "token_expired",
    "not_allowed_token_type",
  ].map((name) => [name, token] as const),
]);

export function outcomeOf(answer: PlatformAnswer<SlackAnswer>, words: OutcomeWords): SendOutcome {
  const { body, status, retryAfterMs } = answer;
  if (status < 300 && body?.ok === true) return { status: "delivered" };
  const name = body?.error;
  if (name === undefined) return outcomeOfAnswer(answer, words);
  const said = `${words.title} refused it: ${printable(name)}${body?.needed === undefined ? "" : ` (needs ${printable(body.needed)})`}.`;
  if (status === 429 || rateLimits.has(name)) return throttled(said, retryAfterMs);
  if (status >= 500 || passing.has(name)) {
    return { status: "retry", error: said, ...(retryAfterMs === undefined ? {} : { afterMs: retryAfterMs }) };
  }
  const hint = remedies.get(name);
  return { status: "permanent", error: hint === undefined ? said : `${said} ${hint}` };
}

const printable = (text: string): string =>
  text
    .replace(/[^\w:.,-]+/g, " ")
    .trim()
    .slice(0, 80);
