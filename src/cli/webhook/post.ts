/** Requests to the receiver, signed as the code host signs them. */
import { Buffer } from "node:buffer";
import { hmacSha256 } from "../../base/digest.ts";
import type { WebhookRoute } from "../../webhook/routes/route.ts";

export type Posted =
  | { readonly status: number; readonly body: string }
  | { readonly status?: undefined; readonly error: string };

/** The receiver answers within ten seconds, also when it sends a message on first. */
const TIMEOUT_MS = 15_000;
const SIGNATURE_HEADER = "x-hub-signature-256";

/** Never rejects. What the receiver answers is cut to what a person reads. */
export async function postSigned({
  url,
  route,
  headers,
  body,
}: {
  readonly url: string;
  readonly route: WebhookRoute;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array<ArrayBuffer>;
}): Promise<Posted> {
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { ...signed(route, body), ...headers },
      body,
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    return { status: response.status, body: (await response.text()).slice(0, MAX_SHOWN_CHARACTERS) };
  } catch (error) {
    return { error: reasonOf(error) };
  }
}

const MAX_SHOWN_CHARACTERS = 4_000;

function signed({ secrets }: WebhookRoute, body: Uint8Array): Readonly<Record<string, string>> {
  if (secrets === "none") return {};
  const [secret = ""] = secrets;
  const mac = Buffer.from(hmacSha256(secret, body)).toString("hex");
  return { [SIGNATURE_HEADER]: `sha256=${mac}` };
}

/** What fetch says itself ("fetch failed") says nothing; its cause does. */
function reasonOf(error: unknown): string {
  const { cause, name, message } = error as { cause?: unknown; name?: string; message?: string };
  if (name === "TimeoutError") return `there was no answer within ${TIMEOUT_MS / 1000} s`;
  const inner = cause as { code?: string; message?: string } | undefined;
  return inner?.message || inner?.code || message || String(error);
}
