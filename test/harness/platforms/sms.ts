/**
 * Twilio as "Messages resource" (twilio.com/docs/messaging/api/message-resource), "Twilio's response" and the "Error and
 * Warning Dictionary" document it.
 */
import { startPlatform, type Asked, type FakePlatform, type Reply } from "./fake.ts";

export const TWILIO_SID = `AC${"0a".repeat(16)}`;
export const TWILIO_TOKEN = "a-token-of-no-account";
export const TWILIO_SERVICE = `MG${"0b".repeat(16)}`;

const schema = {
  type: "object",
  required: ["To", "Body"],
  additionalProperties: false,
  properties: {
    To: { type: "string" },
    From: { type: "string" },
    MessagingServiceSid: { type: "string", pattern: "^MG[0-9a-fA-F]{32}$" },
    Body: { type: "string" },
  },
} as const;

const MAX_BODY_CHARACTERS = 1600;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

/** An account with the number +15550100100 and one messaging service. */
export async function startTwilio(t: Cleanup): Promise<FakePlatform> {
  return startPlatform(t, [
    {
      method: "POST",
      path: /^\/2010-04-01\/Accounts\/(AC[0-9a-fA-F]{32})\/Messages\.json$/,
      schema,
      refuse: ({ headers }) => {
        const right = Buffer.from(`${TWILIO_SID}:${TWILIO_TOKEN}`).toString("base64");
        return headers.authorization === `Basic ${right}` ? undefined : error(401, 20_003, "Authenticate");
      },
      invalid: (issues) => error(400, 21_602, issues),
      answer: (asked) => refusal(asked) ?? message("queued"),
    },
  ]);
}

export function error(status: number, code: number, text: string): Reply {
  const info = `https://www.twilio.com/docs/errors/${code}`;
  return { status, body: { code, message: text, more_info: info, status } };
}

export function message(status: string, more: object = {}): Reply {
  const body = { sid: `SM${"0c".repeat(16)}`, status, error_code: null, error_message: null, ...more };
  return { status: 201, body };
}

function refusal({ body = {} }: Asked): Reply | undefined {
  const to = String(body["To"]);
  const sender = body["From"] ?? body["MessagingServiceSid"];
  if (!/^\+[1-9]\d{1,14}$/.test(to)) return error(400, 21_211, `Invalid 'To' Phone Number: ${to}`);
  if (sender === undefined) return error(400, 21_603, "A 'From' phone number is required.");
  if (sender !== "+15550100100" && sender !== TWILIO_SERVICE)
    return error(400, 21_606, "The 'From' phone number provided is not a valid message-capable number");
  const text = String(body["Body"]);
  if (text === "") return error(400, 21_602, "Message body is required.");
  return Array.from(text).length > MAX_BODY_CHARACTERS
    ? error(400, 21_617, "The concatenated message body exceeds the 1600 character limit.")
    : undefined;
}
