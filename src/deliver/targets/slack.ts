import { registerSecret } from "../../base/observe.ts";
import type { PlatformSettings } from "../../config/platform-settings.ts";
import type { SlackMessage, SlackAnswer } from "../../../generated/delivery/client/types.gen.ts";
import {
  createCall,
  createUpload,
  type Call,
  type Upload,
  type PlatformAnswer,
  outcomeOfAnswer,
  throttled,
  type OutcomeWords,
} from "../platform/call.ts";
import {
  readMessage,
  sendWithFiles,
  type LoadedFile,
  type Message,
  type Platform,
  type SendOptions,
  type SendOutcome,
} from "../target.ts";
import { renderParts, type Part } from "../text/parts.ts";

type Settings = PlatformSettings<"slack">;

const words = { title: "Slack", name: "slack" };
/** chat.postMessage: "the text field should be limited to 4,000 characters"; 40,000 are cut off. */
const TEXT_LIMIT = 4000;
/** Fields of chat.postMessage that deliver_extra may set. */
const FLAGS = ["reply_broadcast", "unfurl_links", "unfurl_media"] as const;

/**
 * Slack Web API, chat.postMessage: mrkdwn with &, < and > escaped, so that no text is a mention. The API does not
 * deduplicate.
 */
export const slack: Platform<Settings> = {
  name: words.name,
  missing: ({ token }) => (token === undefined ? ["token (SLACK_BOT_TOKEN)"] : []),
  create({ token = "", base_url: baseUrl = "https://slack.com/api", ...settings }, { clock, version }) {
    registerSecret(token.trim());
    const caller = { title: words.title, baseUrl, clock, version };
    const call = createCall(caller);
    const authorization = `Bearer ${token.trim()}`;
    const headers = { authorization, "content-type": "application/json; charset=utf-8" };
    const uploader: Uploader = { call, authorization, postBytes: createUpload(caller), baseUrl };
    return {
      name: words.name,
      ...(settings.home_channel === undefined ? {} : { home: settings.home_channel }),
      async send(delivery, options) {
        const message = readMessage(words.name, delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const problem = findProblem(message);
        if (problem !== undefined) return { status: "permanent", error: problem };
        const limit = settings.text_limit ?? TEXT_LIMIT;
        const mayBeEmpty = delivery.files !== undefined;
        const parts = renderParts(message.text, { format: "slack", limit, unit: "utf16", mayBeEmpty });
        const sendText = async ({ text }: Part) => {
          const body = bodyOf(message, text);
          const answer = await call(
            "SlackAnswer",
            (client) => client.slackPostMessage({ body, headers }),
            options,
          );
          return answer.kind === "none" ? answer.outcome : outcomeOf(answer, words);
        };
        const sendFile = (file: LoadedFile) => upload(uploader, { file, message, options });
        return sendWithFiles(parts, { delivery, options }, { sendText, sendFile });
      },
    };
  },
};

function bodyOf({ chat, thread, extra }: Message, text: string): SlackMessage {
  const flags = FLAGS.filter((name) => typeof extra[name] === "boolean").map((name) => [name, extra[name]]);
  return {
    channel: chat,
    text,
    mrkdwn: true,
    ...(thread === undefined ? {} : { thread_ts: thread }),
    ...(Object.fromEntries(flags) as Partial<SlackMessage>),
  };
}

interface Uploader {
  readonly call: Call;
  readonly authorization: string;
  readonly postBytes: Upload;
  readonly baseUrl: string;
}

interface UploadRequest {
  readonly file: LoadedFile;
  readonly message: Message;
  readonly options: SendOptions;
}

const CHANNEL_ID = /^[CDGU][A-Z0-9]{4,20}$/;

/** Slack, "Uploading files": asks for an address, posts the bytes there, and shares the file in the channel. */
async function upload(uploader: Uploader, { file, message, options }: UploadRequest): Promise<SendOutcome> {
  const { call, authorization, postBytes } = uploader;
  const { chat, thread } = message;
  if (!CHANNEL_ID.test(chat)) {
    const error =
      "Slack takes files for the id of a channel only, such as C0123456789. Use it in place of #name.";
    return { status: "permanent", error };
  }
  const headers = { authorization };
  const ticket = await call(
    "SlackAnswer",
    (client) => client.slackGetUploadUrl({ body: { filename: file.name, length: file.sizeBytes }, headers }),
    options,
  );
  if (ticket.kind === "none") return withoutMessage(ticket.outcome);
  const { upload_url: url = "", file_id: id = "" } = ticket.body ?? {};
  if (ticket.body?.ok !== true || id === "") return withoutMessage(outcomeOf(ticket, words));
  if (!isSlacks(url, uploader.baseUrl))
    return { status: "permanent", error: "Slack returned an upload address that is not its own." };
  const stored = await postBytes(url, file, options);
  if (stored.status !== "delivered") return withoutMessage(stored);
  const body = {
    files: [{ id, title: file.name }],
    channel_id: chat,
    ...(thread === undefined ? {} : { thread_ts: thread }),
  };
  const answer = await call(
    "SlackAnswer",
    (client) => client.slackCompleteUpload({ body, headers }),
    options,
  );
  return answer.kind === "none" ? answer.outcome : outcomeOf(answer, words);
}

/** Before the last step nothing is in the channel. */
function withoutMessage(outcome: SendOutcome): SendOutcome {
  if (outcome.status === "delivered") return { status: "retry", error: "Slack returned no upload address." };
  if (outcome.status !== "unknown") return outcome;
  return { status: "retry", error: `${outcome.baseError ?? outcome.error} No message was sent.` };
}

function isSlacks(url: string, baseUrl: string): boolean {
  const { protocol, hostname, host } = URL.parse(url) ?? {};
  if (host !== undefined && host === URL.parse(baseUrl)?.host) return true;
  return protocol === "https:" && /(^|\.)slack\.com$/.test(hostname ?? "");
}

function findProblem({ chat, thread }: Message): string | undefined {
  if (chat === "") {
    return "The message has no channel: set deliver_extra.chat_id, or platforms.slack.home_channel (SLACK_HOME_CHANNEL).";
  }
  if (!/^[#@]?[\p{L}\p{N}_.-]{1,80}$/u.test(chat))
    return "The channel must be its id, such as C0123456789, or #name.";
  if (thread !== undefined && !/^\d{1,12}\.\d{1,9}$/.test(thread)) {
    return "The thread (thread_id) must be the ts of its first message, such as 1712345678.123456.";
  }
  return undefined;
}

const token = "Check platforms.slack.token (SLACK_BOT_TOKEN).";
const admins = "Ask an administrator of the workspace.";
const rateLimits = new Set(["ratelimited", "rate_limited"]);
const passing = new Set([
  "internal_error",
  "fatal_error",
  "request_timeout",
  "service_unavailable",
  "team_added_to_org",
  "external_channel_migrating",
]);
/** What to do about errors, by error name. */
const hints: ReadonlyMap<string, string> = new Map([
  ["not_in_channel", "Invite the bot to the channel: /invite @its-name."],
  [
    "channel_not_found",
    "Check the channel's id. A private channel is found only after the bot was invited to it.",
  ],
  ["is_archived", "Use another channel, or unarchive this one."],
  ["cannot_reply_to_message", "Use the first message of the thread as thread_id, or none."],
  ["thread_not_found", "Check that the thread exists."],
  ["msg_too_long", "Lower platforms.slack.text_limit."],
  ["message_limit_exceeded", `The workspace has reached its message limit. ${admins}`],
  ["missing_scope", "Add the scope to the app and reinstall it."],
  ["restricted_action", `A workspace setting forbids it. ${admins}`],
  [
    "restricted_action_read_only_channel",
    "The channel is read-only: allow the bot to post there, or use another.",
  ],
  ["restricted_action_thread_only_channel", "The channel accepts only thread replies: set thread_id."],
  ["restricted_action_non_threadable_channel", "The channel has no threads: remove thread_id."],
  ["ekm_access_denied", admins],
  ["team_access_not_granted", "Grant the app access to the workspace."],
  ...[
    "invalid_auth",
    "not_authed",
    "account_inactive",
    "token_revoked",
    "token_expired",
    "not_allowed_token_type",
  ].map((name) => [name, token] as const),
]);

function outcomeOf(answer: PlatformAnswer<SlackAnswer>, words: OutcomeWords): SendOutcome {
  const { body, status, retryAfterMs } = answer;
  if (status < 300 && body?.ok === true) return { status: "delivered" };
  const name = body?.error;
  if (name === undefined) return outcomeOfAnswer(answer, words);
  const summary = `${words.title} refused it: ${printable(name)}${body?.needed === undefined ? "" : ` (needs ${printable(body.needed)})`}.`;
  if (status === 429 || rateLimits.has(name)) return throttled(summary, retryAfterMs);
  if (status >= 500 || passing.has(name)) {
    return {
      status: "retry",
      error: summary,
      ...(retryAfterMs === undefined ? {} : { afterMs: retryAfterMs }),
    };
  }
  const hint = hints.get(name);
  return { status: "permanent", error: hint === undefined ? summary : `${summary} ${hint}` };
}

const printable = (text: string): string =>
  text
    .replace(/[^\w:.,-]+/g, " ")
    .trim()
    .slice(0, 80);
