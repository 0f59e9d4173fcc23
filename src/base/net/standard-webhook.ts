/** Signatures of Standard Webhooks 1.0 with a shared secret: made by who sends, checked by who receives. */

/** What a signature covers. */
export interface WebhookContent {
  /** Header `webhook-id`: the same for every attempt at one message. */
  readonly id: string;
  /** Header `webhook-timestamp` as it is sent: Unix seconds of the attempt. */
  readonly timestamp: string;
  /** The bytes on the wire; text is taken as UTF-8. */
  readonly body: string | Uint8Array;
}

export interface VerifyOptions {
  /** What a sender's and our clock may differ, both ways; default 300 seconds. */
  readonly toleranceMs?: number;
  readonly nowMs: number;
}

export type Verdict = "valid" | "stale" | "invalid";

const PREFIX = "whsec_";
const VERSION = "v1,";
const TOLERANCE_MS = 300_000;
/** Signatures of one header that are looked at: a sender that changes its secret gives two. */
const MAX_SIGNATURES = 16;

/**
 * The value of `webhook-signature`. `secret` is `whsec_<base64>`, or text that is the key itself.
 * TypeError for a secret that {@link isWebhookSecret} refuses.
 */
export async function signWebhook(content: WebhookContent, secret: string): Promise<string> {
  const bytes = keyOf(secret);
  if (!bytes)
    throw new TypeError("This is no webhook secret: it is empty, or no base64 stands behind whsec_.");
  const mac = await crypto.subtle.sign("HMAC", await importKey(bytes, "sign"), signedBytes(content));
  return VERSION + btoa(String.fromCharCode(...new Uint8Array(mac)));
}

/**
 * Whether one of the `signatures` (the header: a list parted by spaces, other versions are skipped) was made with one
 * of the `secrets`, those that are live while a secret is being changed. How long it takes tells nothing about where a
 * signature differs. `stale`: signed too long ago, or ahead of its time.
 */
export async function verifyWebhook(
  content: WebhookContent & { readonly signatures: string },
  secrets: readonly string[],
  { nowMs, toleranceMs = TOLERANCE_MS }: VerifyOptions,
): Promise<Verdict> {
  if (content.id === "" || !/^\d{1,12}$/.test(content.timestamp)) return "invalid";
  const given = content.signatures.split(" ", MAX_SIGNATURES).flatMap(macOf);
  if (!(await matches(signedBytes(content), given, secrets))) return "invalid";
  // In whole seconds, as senders count: exactly the tolerance still passes.
  const apartSeconds = Math.abs(Math.floor(nowMs / 1000) - Number(content.timestamp));
  return apartSeconds <= toleranceMs / 1000 ? "valid" : "stale";
}

/** Whether a secret can sign: not empty, and true base64 behind `whsec_`. */
export function isWebhookSecret(secret: string): boolean {
  return keyOf(secret) !== undefined;
}

type Bytes = Uint8Array<ArrayBuffer>;

async function matches(signed: Bytes, given: readonly Bytes[], secrets: readonly string[]): Promise<boolean> {
  let isMatch = false;
  for (const secret of secrets) {
    const bytes = keyOf(secret);
    if (!bytes) continue;
    const key = await importKey(bytes, "verify");
    // All are tried, so that the time does not tell which secret it was.
    for (const mac of given) isMatch = (await crypto.subtle.verify("HMAC", key, mac, signed)) || isMatch;
  }
  return isMatch;
}

function keyOf(secret: string): Bytes | undefined {
  const bytes = secret.startsWith(PREFIX) ? fromBase64(secret.slice(PREFIX.length)) : encode(secret);
  return bytes === undefined || bytes.length === 0 ? undefined : bytes;
}

function importKey(bytes: Bytes, usage: "sign" | "verify"): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, [usage]);
}

function macOf(signature: string): readonly Bytes[] {
  const mac = signature.startsWith(VERSION) ? fromBase64(signature.slice(VERSION.length)) : undefined;
  return mac === undefined ? [] : [mac];
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

/** `atob` alone would pass over spaces. */
function fromBase64(text: string): Bytes | undefined {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return undefined;
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}
