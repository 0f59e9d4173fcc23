/** The receiver's settings, routes and subscriptions for the webhook commands, and signed requests to the receiver. */
import type { Config } from "../../../generated/config/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { suggest } from "../../base/suggest.ts";
import { loadConfig, requireValid } from "../../config/config.ts";
import { configPath, type Environment } from "../../config/home.ts";
import {
  DEFAULT_OWNER,
  type RouteDefaults,
  type WebhookRoute,
  checkStaticRoutes,
  receiverUrl,
  routeDefaults,
  routeUrl,
  type StaticRoutes,
  webhookSettings,
  type WebhookSettings,
} from "../../webhook/routes/route.ts";
import {
  checkEntry,
  type Subscription,
  type Subscriptions,
  loadSubscriptions,
  subscriptionsPath,
} from "../../webhook/routes/subscriptions.ts";
import { signedHeaders } from "../../webhook/deliveries/replay.ts";
import { currentContext } from "../kit/context.ts";
import { findDatabase, withDatabase } from "../kit/database.ts";
import { warn } from "../kit/output.ts";
import { UsageError } from "../kit/arguments.ts";

export interface WebhookHome {
  readonly home: string;
  /** The path of the subscriptions file. */
  readonly path: string;
  readonly config: Config;
  /** With the variables of the home's file. */
  readonly env: Environment;
  readonly settings: WebhookSettings;
  readonly defaults: RouteDefaults;
  readonly configured: StaticRoutes;
  readonly subscriptions: Subscriptions;
  /** Why the subscriptions file is invalid; it then counts as empty. */
  readonly problem: string | undefined;
}

/** Reads the home. ServiceError `invalid_config` for an invalid configuration, or with webhooks disabled. */
export async function openWebhookHome(): Promise<WebhookHome> {
  const { home, env: processEnv } = currentContext();
  const loaded = await loadConfig({ home, env: processEnv });
  const config = requireValid(loaded);
  const settings = webhookSettings(config);
  if (!settings.isEnabled) throw notEnabled(home);
  const defaults = routeDefaults(settings, { env: loaded.env });
  const path = subscriptionsPath(home);
  const parsed = await loadSubscriptions(path);
  return {
    home,
    path,
    config,
    env: loaded.env,
    settings,
    defaults,
    configured: checkStaticRoutes(settings, defaults),
    subscriptions: "problem" in parsed ? {} : parsed.subscriptions,
    problem: "problem" in parsed ? parsed.problem : undefined,
  };
}

function notEnabled(home: string): ServiceError {
  return new ServiceError(
    "invalid_config",
    [
      "Webhooks are not enabled.",
      "  Run `agentd gateway setup`, or do it manually:",
      `  set platforms.webhook.enabled to true in ${configPath(home)}, or set WEBHOOK_ENABLED=true in the environment,`,
      "  and restart `agentd gateway`.",
    ].join("\n"),
  );
}

/** Returns the route of this name. ServiceError `not_found`, or `invalid_config` with its problems. */
export function routeNamed(webhookHome: WebhookHome, name: string): WebhookRoute {
  const { configured, settings, subscriptions, defaults } = webhookHome;
  const isConfigured = Object.hasOwn(settings.routes, name);
  const own = configured.routes.find((route) => route.name === name);
  if (own) return own;
  if (isConfigured) throw unusable(name, configured.problems);
  const entry = Object.hasOwn(subscriptions, name) ? subscriptions[name] : undefined;
  if (!entry) {
    const known = [...Object.keys(settings.routes), ...Object.keys(subscriptions)];
    throw new ServiceError("not_found", `Unknown route ${JSON.stringify(name)}${suggest(name, known)}`);
  }
  const checked = checkEntry(name, entry, defaults);
  if ("problems" in checked) throw unusable(name, checked.problems);
  return checked.route;
}

function unusable(name: string, problems: readonly string[]): ServiceError {
  return new ServiceError("invalid_config", `The route ${name} is invalid: ${problems.join("; ")}.`);
}

/** Returns the address to send requests to. UsageError if the gateway chose the port. */
export function targetUrl(webhookHome: WebhookHome, given: string | undefined): string {
  if (given !== undefined) {
    if (!/^https?:\/\/\S+$/.test(given)) throw new UsageError("--url must start with http:// or https://.");
    return given;
  }
  if (webhookHome.settings.port !== 0) return receiverUrl(webhookHome.settings);
  throw new UsageError(
    "The receiver uses a random port (port: 0). Pass --url with the address that the gateway prints.",
  );
}

/**
 * Records a change of a route for programs that follow the changes. The file has changed already, so that a failure is
 * only a warning.
 */
export async function recordRouteChange(
  type: "route.created" | "route.updated" | "route.deleted",
  name: string,
  { owner = DEFAULT_OWNER, enabled }: Subscription,
): Promise<void> {
  try {
    const database = await findDatabase();
    if (!database.exists) return;
    const data = type === "route.deleted" ? {} : { enabled: enabled !== false };
    await withDatabase(database, (store) =>
      store.write((tx) => tx.record({ type, ref: name, owner, actor: "cli", data })),
    );
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    warn(`The change is not in the feed of events: ${reason}`);
  }
}

interface SignedRequest {
  readonly url: string;
  /** The URL without the secret that a route may have in its path. */
  readonly shownUrl: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Returns where and with which headers the sender of a route would send a body: signed, or with the secret itself. */
export function signedRequest(route: WebhookRoute, base: string, body: Uint8Array): SignedRequest {
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

const MAX_SHOWN_CHARACTERS = 4_000;

/** Returns the cause of a fetch error: its own message is only "fetch failed". */
function reasonOf(error: unknown): string {
  const { cause, name, message } = error as { cause?: unknown; name?: string; message?: string };
  if (name === "TimeoutError") return `no response within ${TIMEOUT_MS / 1000} s`;
  const inner = cause as { code?: string; message?: string } | undefined;
  return inner?.message || inner?.code || message || String(error);
}
