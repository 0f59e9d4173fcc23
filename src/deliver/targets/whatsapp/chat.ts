/** Chats of WhatsApp: a phone number, or the id that WhatsApp itself has for a chat, `number@s.whatsapp.net` or `id@g.us`. Pure. */

type Found = { readonly id: string } | { readonly problem: string };

const MISSING =
  "No chat is named: set deliver_extra.chat_id, or platforms.whatsapp.home_channel (WHATSAPP_CLOUD_HOME_CHANNEL).";
const NO_NUMBER = "The chat must be a phone number with its country code, such as whatsapp:+15550100123.";

/** As the Cloud API takes it: digits. */
export function cloudNumber(chat: string): Found {
  if (chat === "") return { problem: MISSING };
  if (/@g\.us$/i.test(chat)) {
    return { problem: "The Cloud API does not write to groups: name a phone number, or set up a bridge." };
  }
  const digits = digitsOf(chat.replace(/@(s\.whatsapp\.net|c\.us)$/i, ""));
  return digits === undefined ? { problem: NO_NUMBER } : { id: digits };
}

/** As bridges take it. */
export function bridgeChat(chat: string): Found {
  if (chat === "") return { problem: MISSING };
  if (/^[\w.:-]{1,64}@[a-z.]{1,32}$/i.test(chat)) return { id: chat };
  const digits = digitsOf(chat);
  return digits === undefined ? { problem: NO_NUMBER } : { id: `${digits}@s.whatsapp.net` };
}

function digitsOf(text: string): string | undefined {
  const digits = text.replace(/[\s().\u00a0-]+/g, "").replace(/^\+/, "");
  return /^[1-9]\d{6,14}$/.test(digits) ? digits : undefined;
}
