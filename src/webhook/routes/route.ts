/** The settings of the receiver and its routes, checked and with their defaults. Pure. */
import type {
  Config,
  WebhookReceiverConfig,
  WebhookRouteConfig,
} from "../../../generated/config/types.gen.ts";
import { findAddressProblems, platformsOf } from "../../deliver/address.ts";
import { checkFilters } from "../receive/filter.ts";
import { resolveScheme, type Sender } from "../receive/schemes.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Environment } from "../../config/home.ts";

export interface WebhookSettings {
  readonly isEnabled: boolean;
  readonly host: string;
  readonly port: number;
  readonly isLoopback: boolean;
  /** As configured: references are not resolved. */
  readonly secrets: readonly string[];
  /** Requests per minute and route. */
  readonly rateLimit: number;
  readonly maxBodyBytes: number;
  readonly scriptTimeoutMs: number;
  readonly routes: NonNullable<WebhookReceiverConfig["routes"]>;
}

const LOOPBACK = new Set(["127.0.0.1", "localhost", "::1", "[::1]", "ip6-localhost", "ip6-loopback"]);

/** Returns the settings of `platforms.webhook`. Keys under `extra` override the keys beside it. */
export function webhookSettings({ platforms }: Pick<Config, "platforms">): WebhookSettings {
  const { enabled, extra, ...beside } = platforms.webhook;
  const all: WebhookReceiverConfig = { ...beside, ...extra };
  const host = all.host?.trim() ?? "0.0.0.0";
  return {
    isEnabled: enabled,
    host,
    port: all.port ?? 8644,
    isLoopback: LOOPBACK.has(host.toLowerCase()),
    secrets: [...(all.secret ? [all.secret] : []), ...(all.secrets ?? [])],
    rateLimit: all.rate_limit ?? 30,
    maxBodyBytes: all.max_body_bytes ?? 1_048_576,
    scriptTimeoutMs: (all.script_timeout_seconds ?? 30) * 1000,
    routes: { ...beside.routes, ...extra.routes },
  };
}

/** Stands for a secret and turns the signature check off, on loopback addresses only. */
export const NO_AUTH = "INSECURE_NO_AUTH";

export interface WebhookRoute {
  readonly name: string;
  /** static: from the configuration; dynamic: from the subscriptions file. */
  readonly origin: "static" | "dynamic";
  /** Owner of its runs, deliveries and messages. */
  readonly owner: string;
  readonly isEnabled: boolean;
  readonly events: readonly string[];
  /** The valid secrets; `none` turns the signature check off. */
  readonly secrets: readonly string[] | "none";
  /** Earlier secrets, which a rotation keeps valid for some time. */
  readonly retiring: readonly RetiringSecret[];
  /** How a sender may prove itself with the secret instead of a signature. */
  readonly auth: NonNullable<WebhookRouteConfig["auth"]>;
  /** The only sender whose signature is accepted. Undefined: any that its headers identify. */
  readonly sender: Sender | undefined;
  /** Answers the GET request of a sender that asks for it. */
  readonly verifyToken: string | undefined;
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

export interface RetiringSecret {
  readonly secret: string;
  /** Exclusive. */
  readonly untilMs: number;
}

/** Returns the secrets that a request may prove itself with at this time. */
export function validSecrets(
  { secrets, retiring }: Pick<WebhookRoute, "secrets" | "retiring">,
  nowMs: number,
): readonly string[] {
  const earlier = retiring.filter(({ untilMs }) => nowMs < untilMs).map(({ secret }) => secret);
  return [...(secrets === "none" ? [] : secrets), ...earlier];
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
      /** Problems that do not keep it from being served: filters that never match, weak signatures. */
      readonly warnings: readonly string[];
    }
  | { readonly problems: readonly string[] };

/** Returns a route with its defaults, or why it cannot be used and what to do, one clause each. */
export function checkRoute(
  name: string,
  written: Partial<WebhookRouteConfig>,
  defaults: RouteDefaults & {
    readonly origin: WebhookRoute["origin"];
    /** As written. */
    readonly retiring?: readonly RetiringSecret[];
  },
): CheckedRoute {
  const found = secretsOf(written, defaults);
  const scheme = resolveScheme(written);
  const verifyToken = written.verify_token === undefined ? undefined : defaults.resolve(written.verify_token);
  const problems = [
    ...nameProblems(name),
    ...("problem" in found ? [found.problem] : []),
    ...("secrets" in found && found.secrets === "none" && !defaults.isLoopback ? [INSECURE_PROBLEM] : []),
    ...deliveryProblems(written),
    ...("problems" in scheme ? scheme.problems : []),
    ...(written.verify_token !== undefined && !verifyToken
      ? ["its verify_token is empty, or names a variable that is not set"]
      : []),
  ];
  const { origin, retiring = [] } = defaults;
  const filterProblems = checkFilters(written.filters);
  const refused = origin === "static" ? [...problems, ...filterProblems] : problems;
  if (refused.length > 0 || "problem" in found || "problems" in scheme) return { problems: refused };
  const { sender } = scheme;
  const warnings = [...filterProblems, ...(sender?.warning === undefined ? [] : [sender.warning])];
  const more = { origin, secrets: found.secrets, sender, verifyToken };
  const route = toRoute(name, written, { ...more, retiring: resolveAll(retiring, defaults) });
  return { route, warnings };
}

/** Returns the sender whose signature a route checks. Undefined: any that its headers identify, or none. */
export function senderOf(
  written: Pick<Partial<WebhookRouteConfig>, "scheme" | "signature">,
): Sender | undefined {
  const scheme = resolveScheme(written);
  return "problems" in scheme ? undefined : scheme.sender;
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
/** Owner of routes that name none. */
export const DEFAULT_OWNER = "default";

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

/** Resolves references. A variable that is not set any more admits no request. */
function resolveAll(
  retiring: readonly RetiringSecret[],
  { resolve }: RouteDefaults,
): WebhookRoute["retiring"] {
  return retiring.flatMap(({ secret, untilMs }) => {
    const value = resolve(secret);
    return value && value !== NO_AUTH ? [{ secret: value, untilMs }] : [];
  });
}

function toRoute(
  name: string,
  written: Partial<WebhookRouteConfig>,
  {
    origin,
    secrets,
    retiring,
    sender,
    verifyToken,
  }: Pick<WebhookRoute, "origin" | "secrets" | "retiring" | "sender" | "verifyToken">,
): WebhookRoute {
  return {
    name,
    origin,
    secrets,
    retiring,
    isEnabled: written.enabled !== false,
    events: written.events ?? [],
    auth: written.auth ?? "signature",
    sender,
    verifyToken,
    owner: written.owner ?? DEFAULT_OWNER,
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

/** Returns what a route lacks to deliver, a sentence each without its full stop, besides the settings of its platforms. */
export function findDeliveryGaps({
  deliver,
  deliverExtra: { repo, pr_number: number },
}: Pick<WebhookRoute, "deliver" | "deliverExtra">): readonly string[] {
  const comments = platformsOf(deliver).includes("github_comment");
  if (!comments || (repo !== undefined && number !== undefined)) return [];
  return ["github_comment needs repo and pr_number in deliver_extra"];
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

/** Returns the address of the receiver from this machine, without a route path. */
export function receiverUrl({ host, port }: Pick<WebhookSettings, "host" | "port">): string {
  const bare = host.trim().replace(/^\[(.*)\]$/, "$1");
  const isEverywhere = bare === "0.0.0.0" || bare === "::" || bare === "";
  const name = isEverywhere ? "localhost" : bare.includes(":") ? `[${bare}]` : bare;
  return `http://${name}:${port}`;
}

/** Returns the address of a route at a receiver. */
export function routeUrl(base: string, name: string): string {
  return `${base.replace(/\/+$/, "")}/webhooks/${encodeURIComponent(name)}`;
}
