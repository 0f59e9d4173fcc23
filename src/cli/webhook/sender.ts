/** Test requests of this machine to a receiver: signed with the secret of the route, which the API never shows. */
import { ServiceError } from "../../base/errors.ts";
import { loadConfig, requireValid } from "../../config/config.ts";
import { hideSecrets } from "../../config/secret-values.ts";
import {
  checkRoute,
  receiverUrl,
  routeDefaults,
  routeUrl,
  webhookSettings,
  type WebhookRoute,
} from "../../webhook/routes/route.ts";
import { checkEntry, loadSubscriptions, subscriptionsPath } from "../../webhook/routes/subscriptions.ts";
import { signedHeaders } from "../../webhook/deliveries/replay.ts";
import type { Api } from "../kit/api.ts";
import { UsageError } from "../kit/arguments.ts";
import { currentContext } from "../kit/context.ts";
import { textOption } from "../kit/options.ts";

export const receiverOption = textOption(
  "url",
  "Address of the receiver that gets the request. Default: the one of this machine",
);

/** Where test requests go, and what signs them. */
export interface Sender {
  readonly route: WebhookRoute;
  /** Without the path of the route. */
  readonly base: string;
}

/**
 * Returns what sends to a route of this machine. UsageError on a server, and when the gateway chose the port; ServiceError
 * `invalid_config` for a route that cannot be used.
 */
export async function openSender(
  { target }: Api,
  name: string,
  receiver: string | undefined,
): Promise<Sender> {
  if (target !== undefined)
    throw new UsageError(
      `Requests are signed with the secret of the route, which the server at ${target.url} never shows. Pass --dry-run, or run this command on that machine.`,
    );
  const { home, env: processEnv } = currentContext();
  const loaded = await loadConfig({ home, env: processEnv });
  hideSecrets(loaded);
  const settings = webhookSettings(requireValid(loaded));
  const defaults = routeDefaults(settings, { env: loaded.env });
  const configured = Object.hasOwn(settings.routes, name) ? settings.routes[name] : undefined;
  const checked = configured
    ? checkRoute(name, configured, { ...defaults, origin: "static" })
    : checkEntry(name, await subscriptionNamed(home, name), defaults);
  if ("problems" in checked)
    throw new ServiceError("invalid_config", `The route ${name} is invalid: ${checked.problems.join("; ")}.`);
  return { route: checked.route, base: receiver === undefined ? ownUrl(settings) : toReceiver(receiver) };
}

async function subscriptionNamed(home: string, name: string) {
  const parsed = await loadSubscriptions(subscriptionsPath(home));
  const all = "problem" in parsed ? {} : parsed.subscriptions;
  return (Object.hasOwn(all, name) ? all[name] : undefined) ?? {};
}

function toReceiver(text: string): string {
  if (/^https?:\/\/\S+$/.test(text)) return text;
  throw new UsageError("--receiver must start with http:// or https://.");
}

function ownUrl(settings: Parameters<typeof receiverUrl>[0]): string {
  if (settings.port !== 0) return receiverUrl(settings);
  throw new UsageError(
    "The receiver uses a random port (port: 0). Pass --receiver with the address that the gateway prints.",
  );
}

interface SignedRequest {
  readonly url: string;
  /** The URL without the secret that a route may have in its path. */
  readonly shownUrl: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Returns where and with which headers the sender of a route would send a body: signed, or with the secret itself. */
export function signedRequest({ route, base }: Sender, body: Uint8Array): SignedRequest {
  const shownUrl = routeUrl(base, route.name);
  const { auth, sender, secrets } = route;
  const [secret] = secrets === "none" ? [] : secrets;
  if (sender || secret === undefined || auth === "signature")
    return { url: shownUrl, shownUrl, headers: signedHeaders(route, body, Date.now()) };
  if (auth === "path") return { url: `${shownUrl}/${encodeURIComponent(secret)}`, shownUrl, headers: {} };
  const basic = `Basic ${Buffer.from(`agentd:${secret}`).toString("base64")}`;
  return {
    url: shownUrl,
    shownUrl,
    headers: { authorization: auth === "basic" ? basic : `Bearer ${secret}` },
  };
}

export type Posted =
  | { readonly status: number; readonly body: string }
  | { readonly status?: undefined; readonly error: string };

/** The receiver responds within ten seconds, even if it delivers a message first. */
const TIMEOUT_MS = 15_000;

/** Sends a request. Never rejects; cuts the response body for display. */
export async function post({
  url,
  headers,
  body,
}: {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array<ArrayBuffer>;
}): Promise<Posted> {
  try {
    const response = await fetch(url, {
      method: "POST",
      headers,
      body,
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    return { status: response.status, body: (await response.text()).slice(0, MAX_SHOWN_CHARACTERS) };
  } catch (error) {
    return { error: reasonOf(error) };
  }
}

export function isGood({ status }: Posted): boolean {
  return status !== undefined && status >= 200 && status < 300;
}

const MAX_SHOWN_CHARACTERS = 4_000;

/** Returns the cause of a fetch error: its own message is only "fetch failed". */
function reasonOf(error: unknown): string {
  const { cause, name, message } = error as { cause?: unknown; name?: string; message?: string };
  if (name === "TimeoutError") return `no response within ${TIMEOUT_MS / 1000} s`;
  const inner = cause as { code?: string; message?: string } | undefined;
  return inner?.message || inner?.code || message || String(error);
}
