/** A place for the events of one service, ready to be used. Pure. */
import type { WebhookRouteConfig } from "../../../generated/config/types.gen.ts";
import { findAddressProblems, platformsOf } from "../../deliver/address.ts";
import { checkFilters } from "../receive/filter.ts";

/** In place of a secret: no proof is asked for, on loopback only. */
export const NO_PROOF = "INSECURE_NO_AUTH";

export interface WebhookRoute {
  readonly name: string;
  /** static: of the configuration; dynamic: of the file of subscriptions. */
  readonly origin: "static" | "dynamic";
  readonly isEnabled: boolean;
  readonly events: readonly string[];
  /** Those that are good; none: no proof is asked for. */
  readonly secrets: readonly string[] | "none";
  readonly takesBearer: boolean;
  readonly toleranceSeconds: number;
  /** Absent: the payload itself. */
  readonly prompt: string | undefined;
  readonly filters: unknown;
  readonly script: string | undefined;
  readonly retriesScript: boolean;
  readonly skills: readonly string[];
  /** Absent: the narrow default. */
  readonly toolsets: readonly string[] | undefined;
  /** Addresses, as they are written. */
  readonly deliver: string;
  readonly deliverExtra: Readonly<Record<string, unknown>>;
  readonly deliverOnly: boolean;
  readonly suppressesSilence: boolean;
  /** What targets hear of a run that did not complete. Absent: a notice, but in comments of code hosts. */
  readonly onFailure: "notice" | "silent" | undefined;
  /** True: what the sender writes counts like the route's own words. */
  readonly trustsSender: boolean;
  readonly maxConcurrent: number | undefined;
  readonly coalesce: WebhookRouteConfig["coalesce"];
}

export interface RouteDefaults {
  /** Secrets of routes that name none, as they are written. */
  readonly secrets: readonly string[];
  /** False: strangers can reach the receiver. */
  readonly isLoopback: boolean;
  /** The value behind `env:NAME`; text that is no reference stays. Undefined: the variable is not set. */
  readonly resolve: (secret: string) => string | undefined;
}

/** Why a receiver that strangers can reach does without proof for nobody, a clause. */
export const INSECURE_PROBLEM = `${NO_PROOF} is for loopback addresses only; give a secret, or listen on 127.0.0.1`;

export type CheckedRoute =
  | {
      readonly route: WebhookRoute;
      /** Flaws that narrow it and do not keep it from being served: a filter that never matches. */
      readonly warnings: readonly string[];
    }
  | { readonly problems: readonly string[] };

/** A route as it is written, with what it takes over; or why it cannot be used and what to do, a clause each. */
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
          "deliver_only needs a real target in deliver, such as local, webhook or telegram, since the agent says nothing",
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
  // An explicit empty secret takes over nothing: it is a mistake that would let everybody in.
  if (secret === "") return { problem: "its secret is empty; give it one, or take the key out" };
  const own = [...(secret === undefined ? [] : [secret]), ...secrets];
  const written = own.length > 0 ? own : defaults.secrets;
  if (written.length === 0) {
    return { problem: "it has no secret; give it one, or set WEBHOOK_SECRET for all routes" };
  }
  if (written.includes(NO_PROOF)) {
    const isAlone = written.every((each) => each === NO_PROOF);
    return isAlone ? { secrets: "none" } : { problem: `${NO_PROOF} does not go with other secrets` };
  }
  const resolved: string[] = [];
  for (const each of written) {
    const value = defaults.resolve(each);
    if (!value) {
      // Only a reference may be shown: anything else is the secret itself.
      const name = each.startsWith("env:") ? each.slice("env:".length) : undefined;
      return {
        problem: name === undefined ? "one of its secrets is empty" : `${name}, its secret, is not set`,
      };
    }
    // Behind a reference the mark would be a way around the checks above.
    if (value === NO_PROOF)
      return { problem: `${NO_PROOF} must be written as it is, not behind a reference` };
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
