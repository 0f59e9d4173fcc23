/** The routes of the receiver, checked and with their defaults. Pure. */
import type { WebhookRouteConfig, Config } from "../../../generated/config/types.gen.ts";
import { findAddressProblems, platformsOf } from "../../deliver/address.ts";
import { checkFilters } from "../receive/filter.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Environment } from "../../config/home.ts";
import { webhookSettings, type WebhookSettings } from "../settings.ts";

/** Stands for a secret and turns the signature check off, on loopback addresses only. */
export const NO_AUTH = "INSECURE_NO_AUTH";

export interface WebhookRoute {
  readonly name: string;
  /** static: from the configuration; dynamic: from the subscriptions file. */
  readonly origin: "static" | "dynamic";
  readonly isEnabled: boolean;
  readonly events: readonly string[];
  /** The valid secrets; `none` turns the signature check off. */
  readonly secrets: readonly string[] | "none";
  readonly takesBearer: boolean;
  readonly toleranceSeconds: number;
  /** Undefined: the payload itself. */
  readonly prompt: string | undefined;
  readonly filters: unknown;
  readonly script: string | undefined;
  readonly retriesScript: boolean;
  readonly skills: readonly string[];
  /** Undefined: the narrow default. */
  readonly toolsets: readonly string[] | undefined;
  /** Addresses as configured. */
  readonly deliver: string;
  readonly deliverExtra: Readonly<Record<string, unknown>>;
  readonly deliverOnly: boolean;
  readonly suppressesSilence: boolean;
  /** What targets get when a run does not complete. Undefined: a notice, except comments of code hosts. */
  readonly onFailure: "notice" | "silent" | undefined;
  /** True: the sender's text counts like the route's own, and is not marked as data. */
  readonly trustsSender: boolean;
  readonly maxConcurrent: number | undefined;
  readonly coalesce: WebhookRouteConfig["coalesce"];
}

export interface RouteDefaults {
  /** Secrets of routes that name none, as configured. */
  readonly secrets: readonly string[];
  /** False: strangers can reach the receiver. */
  readonly isLoopback: boolean;
  /** Returns the value of `env:NAME`, and any other text unchanged. Undefined when the variable is not set. */
  readonly resolve: (secret: string) => string | undefined;
}

const INSECURE_PROBLEM = `${NO_AUTH} is for loopback addresses only; give a secret, or listen on 127.0.0.1`;

export type CheckedRoute =
  | {
      readonly route: WebhookRoute;
      /** Problems that do not keep it from being served: filters that never match. */
      readonly warnings: readonly string[];
    }
  | { readonly problems: readonly string[] };

/** Returns a route with its defaults, or why it cannot be used and what to do, one clause each. */
export function checkRoute(
  name: string,
  written: Partial<WebhookRouteConfig>,
  defaults: RouteDefaults & { readonly origin: WebhookRoute["origin"] },
): CheckedRoute {
  const found = secretsOf(written, defaults);
  const problems = [
    ...nameProblems(name),
    ...("problem" in found ? [found.problem] : []),
    ...("secrets" in found && found.secrets === "none" && !defaults.isLoopback ? [INSECURE_PROBLEM] : []),
    ...deliveryProblems(written),
  ];
  const { origin } = defaults;
  const filterProblems = checkFilters(written.filters);
  const refused = origin === "static" ? [...problems, ...filterProblems] : problems;
  if (refused.length > 0 || "problem" in found) return { problems: refused };
  return { route: toRoute(name, written, { origin, secrets: found.secrets }), warnings: filterProblems };
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

function nameProblems(name: string): readonly string[] {
  return NAME.test(name) ? [] : ["its name may have letters, digits, _, - and . only, at most 128"];
}

function deliveryProblems({
  deliver = LOG,
  deliver_only: isOnly = false,
  coalesce,
}: Partial<WebhookRouteConfig>): readonly string[] {
  const isRead = platformsOf(deliver).some((platform) => platform !== LOG);
  return [
    ...findAddressProblems(deliver).map((problem) => `deliver: ${problem}`),
    ...(isOnly && !isRead
      ? [
          "deliver_only needs a real target in deliver, such as local, webhook or telegram, because no agent answers",
        ]
      : []),
    ...(isOnly && coalesce !== undefined ? ["coalesce does not go with deliver_only; take one out"] : []),
  ];
}

const LOG = "log";

type FoundSecrets = { readonly secrets: WebhookRoute["secrets"] } | { readonly problem: string };

function secretsOf(
  { secret, secrets = [] }: Partial<WebhookRouteConfig>,
  defaults: RouteDefaults,
): FoundSecrets {
  // An explicit empty secret does not inherit: it is a mistake that would accept every request.
  if (secret === "") return { problem: "its secret is empty; set one, or remove the key" };
  const own = [...(secret === undefined ? [] : [secret]), ...secrets];
  const written = own.length > 0 ? own : defaults.secrets;
  if (written.length === 0) {
    return { problem: "it has no secret; set one, or set WEBHOOK_SECRET for all routes" };
  }
  if (written.includes(NO_AUTH)) {
    const isAlone = written.every((each) => each === NO_AUTH);
    return isAlone ? { secrets: "none" } : { problem: `${NO_AUTH} does not go with other secrets` };
  }
  const resolved: string[] = [];
  for (const each of written) {
    const value = defaults.resolve(each);
    if (!value) {
      // Only a reference may be shown: any other text is the secret itself.
      const name = each.startsWith("env:") ? each.slice("env:".length) : undefined;
      return {
        problem: name === undefined ? "one of its secrets is empty" : `${name}, its secret, is not set`,
      };
    }
    // Behind a reference it would bypass the checks above.
    if (value === NO_AUTH) return { problem: `${NO_AUTH} must be written as it is, not behind a reference` };
    resolved.push(value);
  }
  return { secrets: resolved };
}

function toRoute(
  name: string,
  written: Partial<WebhookRouteConfig>,
  { origin, secrets }: Pick<WebhookRoute, "origin" | "secrets">,
): WebhookRoute {
  return {
    name,
    origin,
    secrets,
    isEnabled: written.enabled !== false,
    events: written.events ?? [],
    takesBearer: written.auth === "bearer",
    toleranceSeconds: written.tolerance_seconds ?? 300,
    prompt: written.prompt,
    filters: written.filters,
    script: written.script,
    retriesScript: written.retry_on_script_failure === true,
    skills: written.skills ?? [],
    toolsets: written.toolsets,
    deliver: written.deliver ?? LOG,
    deliverExtra: written.deliver_extra ?? {},
    deliverOnly: written.deliver_only === true,
    suppressesSilence: written.silent === "suppress",
    onFailure: written.on_failure,
    trustsSender: written.trusts_sender === true,
    maxConcurrent: written.max_concurrent,
    coalesce: written.coalesce,
  };
}

export interface StaticRoutes {
  readonly routes: readonly WebhookRoute[];
  /** What keeps the receiver from starting: a sentence each, without the full stop. */
  readonly problems: readonly string[];
}

/** Returns the defaults of routes from the settings and the environment. */
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
  // Checked even when each route has its own secret: the next subscription may not.
  if (settings.secrets.includes(NO_AUTH) && !settings.isLoopback) {
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
 * Returns the routes of the configuration; none when the receiver is disabled. ServiceError `invalid_config` that lists
 * every problem.
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
  throw new ServiceError("invalid_config", `The webhook receiver cannot start:\n${list}`);
}
