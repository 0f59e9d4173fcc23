/**
 * Mattermost as its API reference has "Create a post" and its errors (api/v4/source/posts.yaml of mattermost/mattermost,
 * developers.mattermost.com), with the limits of the server's model of a post and its memory of pending ids.
 */
import { startPlatform, type Asked, type FakePlatform, type Reply } from "./fake.ts";

export const MATTERMOST_TOKEN = "token-of-no-mattermost-bot";
export const CHANNEL = "channelaaaaaaaaaaaaaaaaaaa";
export const ROOT_POST = "rootpostaaaaaaaaaaaaaaaaaa";
export const ARCHIVED = "archivedaaaaaaaaaaaaaaaaaa";

const post = {
  type: "object",
  required: ["channel_id", "message"],
  additionalProperties: false,
  properties: {
    channel_id: { type: "string", pattern: "^[a-z0-9]{26}$" },
    message: { type: "string", minLength: 1 },
    root_id: { type: "string", pattern: "^[a-z0-9]{26}$" },
    pending_post_id: { type: "string", minLength: 1 },
  },
} as const;

const MAX_MESSAGE = 16_383;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

/** The bot is in {@link CHANNEL}, which has the post {@link ROOT_POST}. */
export async function startMattermost(t: Cleanup): Promise<FakePlatform> {
  const pending = new Map<string, string>();
  let count = 0;
  return startPlatform(t, [
    {
      method: "POST",
      path: /^\/api\/v4\/posts$/,
      schema: post,
      refuse: ({ headers }) =>
        headers.authorization === `Bearer ${MATTERMOST_TOKEN}`
          ? undefined
          : error(
              401,
              "api.context.session_expired.app_error",
              "Invalid or expired session, please login again.",
            ),
      invalid: (issues) => error(400, "api.context.invalid_body_param.app_error", issues),
      answer: (asked) => {
        const refusal = refusalOf(asked);
        if (refusal) return refusal;
        const { pending_post_id: mark, ...body } = asked.body ?? {};
        const id = pending.get(String(mark)) ?? `post${String((count += 1)).padStart(22, "0")}`;
        pending.set(String(mark), id);
        return { status: 201, body: { id, create_at: 1_700_000_000_000, ...body } };
      },
    },
  ]);
}

/** The body of an error, as servers give it. */
export function error(status: number, id: string, message: string): Reply {
  return { status, body: { id, message, detailed_error: "", request_id: "r", status_code: status } };
}

function refusalOf({ body = {} }: Asked): Reply | undefined {
  const { channel_id: channel, root_id: root, message } = body;
  if (channel === ARCHIVED) {
    return error(
      400,
      "api.post.create_post.can_not_post_to_deleted.error",
      "Can not post to deleted channel.",
    );
  }
  if (channel !== CHANNEL) {
    return error(403, "api.context.permissions.app_error", "You do not have the appropriate permissions.");
  }
  if (root !== undefined && root !== ROOT_POST) {
    return error(400, "api.post.create_post.root_id.app_error", "Invalid RootId parameter.");
  }
  if (Array.from(String(message)).length > MAX_MESSAGE) {
    return error(
      400,
      "model.post.is_valid.message_length.app_error",
      "Post Message property is longer than the maximum.",
    );
  }
  return undefined;
}
