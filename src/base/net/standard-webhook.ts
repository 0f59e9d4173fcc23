/** Signs messages as Standard Webhooks 1.0 does, with a shared secret. */

/** The content that a signature covers. */
export interface WebhookContent {
  /** Header `webhook-id`: the same for every attempt at one message. */
  readonly id: string;
  /** Header `webhook-timestamp` as it is sent: Unix seconds of the attempt. */
  readonly timestamp: string;
  /** The bytes on the wire; text is encoded as UTF-8. */
  readonly body: string | Uint8Array;
}

const PREFIX = "whsec_";
const VERSION = "v1,";

/**
 * Returns the value of `webhook-signature`. `secret` is `whsec_<base64>`, or text that is the key itself.
 * TypeError for a secret that {@link isWebhookSecret} rejects.
 */
export async function signWebhook(content: WebhookContent, secret: string): Promise<string> {
  const bytes = keyOf(secret);
  if (!bytes)
    throw new TypeError("The webhook secret is not valid: it is empty, or whsec_ is not followed by base64.");
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", bytes, algorithm, false, ["sign"]);
  const mac = await crypto.subtle.sign("HMAC", key, signedBytes(content));
  return VERSION + btoa(String.fromCharCode(...new Uint8Array(mac)));
}

/** Returns whether a secret can sign: it is not empty, and base64 follows `whsec_`. */
export function isWebhookSecret(secret: string): boolean {
  return keyOf(secret) !== undefined;
}

type Bytes = Uint8Array<ArrayBuffer>;

function keyOf(secret: string): Bytes | undefined {
  const bytes = secret.startsWith(PREFIX) ? fromBase64(secret.slice(PREFIX.length)) : encode(secret);
  return bytes === undefined || bytes.length === 0 ? undefined : bytes;
}

function signedBytes({ id, timestamp, body }: WebhookContent): Bytes {
  const head = encode(`${id}.${timestamp}.`);
  const tail = typeof body === "string" ? encode(body) : body;
  const all = new Uint8Array(head.length + tail.length);
  all.set(head);
  all.set(tail, head.length);
  return all;
}

function encode(text: string): Bytes {
  return new TextEncoder().encode(text);
}

/** Stricter than `atob`, which ignores spaces. */
function fromBase64(text: string): Bytes | undefined {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return undefined;
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}
