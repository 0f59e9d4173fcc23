/** The requests with which services verify the URL of a route before they send events. Pure but for the machine's crypto. */
import type { WebhookChallenge, WebhookEncryptedToken } from "../../../generated/webhook/types/types.gen.ts";
import { hmacSha256, isSameSecret } from "../../base/text.ts";
import { isRecord } from "../../base/data.ts";
import type { WebhookRoute } from "../routes/route.ts";

const MAX_CHALLENGE_CHARACTERS = 1_000;
/** Text that is safe to send back to anyone. */
const CHALLENGE = /^[\w.~-]{1,200}$/;

type HandshakeRoute = Pick<WebhookRoute, "sender" | "secrets" | "verifyToken">;

/**
 * Returns the answer to a signed request that verifies the URL: the challenge of Slack's `url_verification`, or the token of
 * Zoom's `endpoint.url_validation` with its HMAC. Undefined: it is an event.
 */
export function answerHandshake(
  { sender, secrets }: HandshakeRoute,
  payload: unknown,
): WebhookChallenge | WebhookEncryptedToken | undefined {
  if (!isRecord(payload)) return undefined;
  const { type, challenge, event, payload: inner } = payload;
  if (sender?.handshake === "slack" && type === "url_verification")
    return isShort(challenge) ? { challenge } : undefined;
  if (sender?.handshake !== "zoom" || event !== "endpoint.url_validation") return undefined;
  const plainToken = isRecord(inner) ? inner["plainToken"] : undefined;
  const [secret] = secrets === "none" ? [] : secrets;
  if (!isShort(plainToken) || secret === undefined) return undefined;
  return { plainToken, encryptedToken: hmacSha256(secret, plainToken).toString("hex") };
}

function isShort(value: unknown): value is string {
  return typeof value === "string" && value !== "" && value.length <= MAX_CHALLENGE_CHARACTERS;
}

/** Whether a service can verify the URL of the route by GET. */
export function answersGet({ sender, verifyToken }: HandshakeRoute): boolean {
  return sender?.handshake === "meta" && verifyToken !== undefined;
}

/** Returns the challenge of Meta's GET request, or why it is refused. */
export function answerGet(
  { verifyToken = "" }: HandshakeRoute,
  query: URLSearchParams,
): { readonly challenge: string } | { readonly refused: "bad_request" | "invalid_signature" } {
  const challenge = query.get("hub.challenge") ?? "";
  if (query.get("hub.mode") !== "subscribe" || !CHALLENGE.test(challenge)) return { refused: "bad_request" };
  const bytes = (text: string) => new TextEncoder().encode(text);
  const isSame = isSameSecret(bytes(query.get("hub.verify_token") ?? ""), bytes(verifyToken));
  return isSame ? { challenge } : { refused: "invalid_signature" };
}

const VERIFICATION_TOKEN = /^[\w.~-]{8,200}$/;

/**
 * Returns the token of Notion's first request. It is not signed, because the token is the secret of all later ones: a
 * person must compare and store it. Undefined: it is another request.
 */
export function verificationTokenOf(
  { sender }: HandshakeRoute,
  { headers, body }: { readonly headers: Pick<Headers, "get">; readonly body: Uint8Array },
): string | undefined {
  if (sender?.handshake !== "notion" || headers.get(sender.header) !== null || body.length > 1_000)
    return undefined;
  try {
    const payload = JSON.parse(new TextDecoder().decode(body)) as unknown;
    const token = isRecord(payload) ? payload["verification_token"] : undefined;
    return typeof token === "string" && VERIFICATION_TOKEN.test(token) ? token : undefined;
  } catch {
    return undefined;
  }
}
