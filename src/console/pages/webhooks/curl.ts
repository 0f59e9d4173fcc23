/** Commands that send a request to a route, as its sender would. Pure. */
import type { Route } from "../../../client/http.ts";

export interface CurlRequest {
  readonly route: Pick<Route, "name" | "url" | "auth" | "scheme" | "secrets">;
  readonly event: string;
  readonly body: string;
  /** Further headers, with names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Shown only where the page has it: a new route, or a new secret. */
  readonly secret?: string;
}

/** Headers of one connection, one signature or one delivery: a new request has its own. */
const OF_ONE_REQUEST =
  /^(host|connection|keep-alive|transfer-encoding|te|trailer|upgrade|expect|content-length|content-encoding|accept|accept-encoding|user-agent|forwarded|x-forwarded-.*|x-request-id|x-agent-.*|.*(signature|token|authorization|hmac|delivery|timestamp|message-id).*)$/i;
const REDACTED = "[redacted]";

/**
 * Returns a command that sends the request again. It signs the body as GitHub does, which every route without a scheme of its
 * own accepts; for other schemes it is the command of agentd that signs.
 */
export function curlOf({ route, event, body, headers = {}, secret }: CurlRequest): string {
  const { auth, scheme, url, name } = route;
  if (scheme !== "auto" || url === null) return testCommand(name, event, body);
  const isSigned = auth === "signature" && route.secrets.length > 0;
  const kept = Object.entries(headers).filter(
    ([key, value]) => !OF_ONE_REQUEST.test(key) && value !== REDACTED,
  );
  const sent = new Map([["content-type", "application/json"], ["x-github-event", event], ...kept]);
  const lines = [
    `BODY=${quote(body)}`,
    ...(route.secrets.length > 0
      ? [`SECRET=${secret === undefined ? "'the secret of the route'" : quote(secret)}`]
      : []),
    ...(isSigned ? [`MAC=$(printf %s "$BODY" | openssl dgst -sha256 -hmac "$SECRET" | sed 's/.* //')`] : []),
    [
      `curl -i ${auth === "path" ? `"${url}/$SECRET"` : quote(url)}`,
      ...[...sent].map(([key, value]) => `-H ${quote(`${key}: ${value}`)}`),
      ...(isSigned ? [`-H "x-hub-signature-256: sha256=$MAC"`] : []),
      ...(auth === "bearer" ? [`-H "authorization: Bearer $SECRET"`] : []),
      ...(auth === "basic" ? [`-u "sender:$SECRET"`] : []),
      `--data-binary "$BODY"`,
    ].join(" \\\n  "),
  ];
  return lines.join("\n");
}

function testCommand(name: string, event: string, body: string): string {
  return `agentd webhook test ${name} --event ${quote(event)} --payload ${quote(body)}`;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
