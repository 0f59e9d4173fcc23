/**
 * BlueBubbles Server as its REST API documents POST /api/v1/message/text ("Send Text Message", docs.bluebubbles.app) and
 * its "MessageValidator" enforces it.
 */
import { startPlatform, type Asked, type FakePlatform, type Reply } from "./fake.ts";

export const BLUEBUBBLES_PASSWORD = "a password & of no Mac";

const schema = {
  type: "object",
  required: ["chatGuid", "message"],
  properties: {
    chatGuid: { type: "string", minLength: 1 },
    tempGuid: { type: "string" },
    message: { type: "string" },
    method: { enum: ["apple-script", "private-api"] },
    effectId: { type: "string" },
    subject: { type: "string" },
    selectedMessageGuid: { type: "string" },
    partIndex: { type: "number", minimum: 0 },
    ddScan: { type: "boolean" },
  },
  additionalProperties: false,
} as const;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

/** Knows the chats of +15550100123 and maria@example.org. `queued`: marks of messages that are under way. */
export async function startBlueBubbles(t: Cleanup, queued: readonly string[] = []): Promise<FakePlatform> {
  return startPlatform(t, [
    {
      method: "POST",
      path: /^\/api\/v1\/message\/text$/,
      schema,
      refuse: ({ query }) =>
        query.get("password") === BLUEBUBBLES_PASSWORD
          ? undefined
          : error(401, "Authentication Error", "Unauthorized"),
      invalid: (issues) => error(400, "Validation Error", issues),
      answer: (asked) => refusal(asked, queued) ?? sent(asked),
    },
  ]);
}

export function error(status: number, type: string, reason: string): Reply {
  const message = status === 401 ? "You are not authorized to access this resource" : "Message Send Error";
  return { status, body: { status, message, error: { type, message: reason } } };
}

function refusal({ body = {} }: Asked, queued: readonly string[]): Reply | undefined {
  const { chatGuid, tempGuid = "", message, method = "apple-script", selectedMessageGuid } = body;
  const isAppleScript = method === "apple-script" && selectedMessageGuid === undefined;
  if (isAppleScript && tempGuid === "")
    return error(400, "Validation Error", "A 'tempGuid' is required when sending via AppleScript");
  if (message === "") return error(400, "Validation Error", "A 'message' is required when sending");
  if (queued.includes(String(tempGuid))) {
    return error(
      400,
      "Validation Error",
      `Message is already queued to be sent! (Temp GUID: ${String(tempGuid)})`,
    );
  }
  return /^(any|iMessage|SMS);-;(\+15550100123|maria@example\.org)$|^iMessage;\+;chat\d+$/.test(
    String(chatGuid),
  )
    ? undefined
    : error(500, "iMessage Error", "Chat does not exist!");
}

function sent({ body = {} }: Asked): Reply {
  const { tempGuid, message } = body;
  return {
    status: 200,
    body: { status: 200, message: "Message sent!", data: { guid: "9F3B0C44-1", tempGuid, text: message } },
  };
}
