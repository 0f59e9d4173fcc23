import { registerSecret } from "../../../base/observe/redact.ts";
import type { PlatformSettings } from "../../../config/platform-settings.ts";
import type { SlackMessage } from "../../../../generated/delivery/client/types.gen.ts";
import { createCall } from "../../platform/call.ts";
import { readMessage, type Message } from "../../message.ts";
import { sendParts } from "../../deps.ts";
import type { Platform } from "../../platform/platform.ts";
import { renderParts } from "../../text/parts.ts";
import { outcomeOf } from "./outcome.ts";

type Settings = PlatformSettings<"slack">;

const words = { title: "Slack", name: "slack" };
/** chat.postMessage: "the text field should be limited to 4,000 characters"; 40,000 are cut off. */
const TEXT_LIMIT = 4000;
/** What may be told besides, in deliver_extra, as chat.postMessage names it. */
const FLAGS = ["reply_broadcast", "unfurl_links", "unfurl_media"] as const;

/** Web API, chat.postMessage: texts in mrkdwn, with &, < and > escaped, so that they address nobody. Repeats are not told apart. */
export const slack: Platform<Settings> = {
  name: words.name,
  missing: ({ token }) => (token === undefined ? ["token (SLACK_BOT_TOKEN)"] : []),
  create({ token = "", base_url: baseUrl = "https://slack.com/api", ...settings }, { clock, version }) {
    registerSecret(token.trim());
    const call = createCall({ title: words.title, baseUrl, clock, version });
    const headers = {
      authorization: `Bearer ${token.trim()}`,
      "content-type": "application/json; charset=utf-8",
    };
    return {
      name: words.name,
      ...(settings.home_channel === undefined ? {} : { home: settings.home_channel }),
      async send(delivery, options) {
        const message = readMessage(words.name, delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const problem = findProblem(message);
        if (problem !== undefined) return { status: "permanent", error: problem };
        const limit = settings.text_limit ?? TEXT_LIMIT;
        const parts = renderParts(message.text, { format: "slack", limit, unit: "utf16" });
        return sendParts(parts, { delivery, options }, async ({ text }) => {
          const body = bodyOf(message, text);
          const answer = await call(
            "SlackAnswer",
            (client) => client.slackPostMessage({ body, headers }),
            options,
          );
          return answer.kind === "none" ? answer.outcome : outcomeOf(answer, words);
        });
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

function findProblem({ chat, thread }: Message): string | undefined {
  if (chat === "") {
    return "No channel is named: set deliver_extra.chat_id, or platforms.slack.home_channel (SLACK_HOME_CHANNEL).";
  }
  if (!/^[#@]?[\p{L}\p{N}_.-]{1,80}$/u.test(chat))
    return "The channel must be its id, such as C0123456789, or #name.";
  if (thread !== undefined && !/^\d{1,12}\.\d{1,9}$/.test(thread)) {
    return "The thread (thread_id) must be the ts of its first message, such as 1712345678.123456.";
  }
  return undefined;
}
