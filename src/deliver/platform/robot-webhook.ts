/** The webhooks of robots in groups, as DingTalk and WeCom show them: an address with a key in its query. Pure. */
export interface RobotWebhook {
  /** Without the path and the query, and without a slash at the end. */
  readonly baseUrl: string;
  /** Who has it may write to the group. */
  readonly key: string;
}

/** The chat of messages for the webhook, where others name a chat of the app's or the bot's. */
export const WEBHOOK_CHAT = "webhook";

/** Undefined when `url` does not end in `path` with a value for `query`. */
export function parseRobotWebhook(url: string, path: string, query: string): RobotWebhook | undefined {
  if (!URL.canParse(url)) return undefined;
  const { origin, pathname, searchParams } = new URL(url);
  const key = searchParams.get(query);
  if (!key || !pathname.endsWith(path)) return undefined;
  return { baseUrl: `${origin}${pathname.slice(0, -path.length)}`, key };
}
