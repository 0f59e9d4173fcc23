/** The routes of the configuration, all of them checked before any is served. Pure. */
import type { Config } from "../../../generated/config/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Environment } from "../../config/home.ts";
import { checkRoute, INSECURE_PROBLEM, NO_PROOF, type RouteDefaults, type WebhookRoute } from "./route.ts";
import { webhookSettings, type WebhookSettings } from "../settings.ts";

export interface StaticRoutes {
  readonly routes: readonly WebhookRoute[];
  /** What keeps the receiver from being started, a sentence each, without its full stop. */
  readonly problems: readonly string[];
}

/** What routes take over from the settings and the environment. */
export function routeDefaults(
  { secrets, isLoopback }: Pick<WebhookSettings, "secrets" | "isLoopback">,
  { env }: { readonly env: Environment },
): RouteDefaults {
  const resolve = (secret: string) => (secret.startsWith("env:") ? env[secret.slice("env:".length)] : secret);
  return { secrets, isLoopback, resolve };
}

export function checkStaticRoutes(
  settings: Pick<WebhookSettings, "routes" | "secrets" | "isLoopback">,
  defaults: RouteDefaults,
): StaticRoutes {
  const routes: WebhookRoute[] = [];
  const problems: string[] = [];
  // Also where each route has its own: the next subscription might not.
  if (settings.secrets.includes(NO_PROOF) && !settings.isLoopback) {
    problems.push(`the secret of all routes: ${INSECURE_PROBLEM}`);
  }
  for (const [name, written] of Object.entries(settings.routes)) {
    const checked = checkRoute(name, written, { ...defaults, origin: "static" });
    if ("route" in checked) routes.push(checked.route);
    else problems.push(...checked.problems.map((problem) => `route ${name}: ${problem}`));
  }
  return { routes, problems };
}

/**
 * The routes of a configuration whose receiver is enabled; none of another. ServiceError `invalid_config` that lists what
 * keeps the receiver from being started.
 */
export function requireUsableRoutes(
  config: Pick<Config, "platforms">,
  from: { readonly env: Environment },
): readonly WebhookRoute[] {
  const settings = webhookSettings(config);
  if (!settings.isEnabled) return [];
  const { routes, problems } = checkStaticRoutes(settings, routeDefaults(settings, from));
  if (problems.length === 0) return routes;
  const list = problems.map((problem) => `  ${problem}`).join("\n");
  throw new ServiceError("invalid_config", `The receiver of webhooks cannot be started:\n${list}`);
}
