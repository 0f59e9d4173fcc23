/** The receiver's settings, routes and subscriptions for the webhook commands, and signed requests to the receiver. */
import type { Config } from "../../../generated/config/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { suggest } from "../../base/nearest.ts";
import { loadConfig, requireValid } from "../../config/config.ts";
import { configPath, type Environment } from "../../config/home.ts";
import {
  checkRoute,
  type RouteDefaults,
  type WebhookRoute,
  checkStaticRoutes,
  routeDefaults,
  type StaticRoutes,
} from "../../webhook/routes/route.ts";
import { webhookSettings, type WebhookSettings } from "../../webhook/settings.ts";
import {
  checkSubscription,
  type Subscription,
  type Subscriptions,
} from "../../webhook/routes/subscription.ts";
import { loadSubscriptions, subscriptionsPath } from "../../webhook/routes/files.ts";
import { currentContext } from "../kit/context.ts";
import { UsageError } from "../kit/arguments.ts";
import { Buffer } from "node:buffer";
import { hmacSha256 } from "../../base/digest.ts";

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

type CheckedEntry =
  | { readonly route: WebhookRoute; readonly warnings: readonly string[] }
  | { readonly problems: readonly string[] };

/** Validates a subscription like the receiver. */
export function checkEntry(name: string, entry: Subscription, defaults: RouteDefaults): CheckedEntry {
  const { written, problems, unknown } = checkSubscription(entry);
  const checked = checkRoute(name, written, { ...defaults, origin: "dynamic" });
  const all = [...problems, ...("problems" in checked ? checked.problems : [])];
  if ("problems" in checked || all.length > 0) return { problems: all };
  const strange = unknown.map((key) => `unknown key ${key}`);
  return { route: checked.route, warnings: [...checked.warnings, ...strange] };
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

/** Returns the address of the receiver from this machine, without a route path. */
export function receiverUrl({ host, port }: Pick<WebhookSettings, "host" | "port">): string {
  const bare = host.trim().replace(/^\[(.*)\]$/, "$1");
  const isEverywhere = bare === "0.0.0.0" || bare === "::" || bare === "";
  const name = isEverywhere ? "localhost" : bare.includes(":") ? `[${bare}]` : bare;
  return `http://${name}:${port}`;
}

export function routeUrl(base: string, name: string): string {
  return `${base.replace(/\/+$/, "")}/webhooks/${encodeURIComponent(name)}`;
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

export type Posted =
  | { readonly status: number; readonly body: string }
  | { readonly status?: undefined; readonly error: string };

/** The receiver responds within ten seconds, even if it delivers a message first. */
const TIMEOUT_MS = 15_000;
const SIGNATURE_HEADER = "x-hub-signature-256";

/** Sends a request signed like GitHub. Never rejects; cuts the response body for display. */
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

/** Returns the cause of a fetch error: its own message is only "fetch failed". */
function reasonOf(error: unknown): string {
  const { cause, name, message } = error as { cause?: unknown; name?: string; message?: string };
  if (name === "TimeoutError") return `no response within ${TIMEOUT_MS / 1000} s`;
  const inner = cause as { code?: string; message?: string } | undefined;
  return inner?.message || inner?.code || message || String(error);
}
