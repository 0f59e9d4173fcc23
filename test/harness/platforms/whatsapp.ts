/**
 * WhatsApp as "Send messages" and "Error codes" of the "WhatsApp Business Platform" document the Cloud API
 * (developers.facebook.com/documentation/business-messaging/whatsapp), and a bridge as the contract of this project
 * describes it.
 */
import { startPlatform, type Asked, type FakePlatform, type Reply } from "./fake.ts";

export const WHATSAPP_NUMBER_ID = "106540352242922";
export const WHATSAPP_TOKEN = "a-token-of-no-app";

const schema = {
  type: "object",
  required: ["messaging_product", "to", "type", "text"],
  additionalProperties: false,
  properties: {
    messaging_product: { const: "whatsapp" },
    recipient_type: { const: "individual" },
    to: { type: "string", pattern: "^\\+?\\d{7,15}$" },
    type: { const: "text" },
    text: {
      type: "object",
      required: ["body"],
      additionalProperties: false,
      properties: {
        body: { type: "string", minLength: 1, maxLength: 4096 },
        preview_url: { type: "boolean" },
      },
    },
    context: {
      type: "object",
      required: ["message_id"],
      additionalProperties: false,
      properties: { message_id: { type: "string", pattern: "^wamid\\." } },
    },
  },
} as const;

const bridgeSchema = {
  type: "object",
  required: ["chatId", "message"],
  additionalProperties: false,
  properties: {
    chatId: { type: "string", pattern: "^[\\w.:-]+@(s\\.whatsapp\\.net|g\\.us|lid)$" },
    message: { type: "string", minLength: 1 },
    replyTo: { type: "string" },
  },
} as const;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

/** A number that may write to 15550100123; another one, 15550100199, is not on WhatsApp. */
export async function startWhatsapp(t: Cleanup): Promise<FakePlatform> {
  let lastId = 0;
  return startPlatform(t, [
    {
      method: "POST",
      path: /^\/v\d+\.\d+\/(\d+)\/messages$/,
      schema,
      refuse: ({ headers }) =>
        headers.authorization === `Bearer ${WHATSAPP_TOKEN}`
          ? undefined
          : error(401, 190, "Invalid OAuth access token - Cannot parse access token"),
      invalid: (issues) => error(400, 100, `(#100) Invalid parameter: ${issues}`),
      answer: (asked, match) => {
        const refused = refusal(asked, match[1] ?? "");
        return refused ?? accepted(asked, `wamid.${(lastId += 1)}`);
      },
    },
    {
      method: "POST",
      path: /^\/send$/,
      schema: bridgeSchema,
      invalid: () => ({ status: 400, body: { error: "chatId and message are required" } }),
      answer: () => ({ status: 200, body: { success: true, messageId: `3EB0${(lastId += 1)}` } }),
    },
  ]);
}

export function error(status: number, code: number, message: string, details?: string): Reply {
  const data = details === undefined ? {} : { error_data: { messaging_product: "whatsapp", details } };
  return {
    status,
    body: {
      error: { message, type: "OAuthException", code, ...data, fbtrace_id: "Az8or2yhqkZfEZ-_4Qn_Bam" },
    },
  };
}

function refusal({ body = {} }: Asked, numberId: string): Reply | undefined {
  if (numberId !== WHATSAPP_NUMBER_ID) {
    return error(400, 100, `Unsupported post request. Object with ID '${numberId}' does not exist`);
  }
  return body["to"] === "15550100199"
    ? error(400, 131_026, "(#131026) Message undeliverable", "Message Undeliverable.")
    : undefined;
}

function accepted({ body = {} }: Asked, id: string): Reply {
  const { to } = body;
  return {
    status: 200,
    body: { messaging_product: "whatsapp", contacts: [{ input: to, wa_id: to }], messages: [{ id }] },
  };
}
