/** A place for the events of one service, ready to be used. Pure. */
import type { WebhookRouteConfig } from "../../generated/config/types.gen.ts";
import { checkFilters } from "./filter.ts";

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
  readonly deliver: string;
  readonly deliverExtra: Readonly<Record<string, unknown>>;
  readonly deliverOnly: boolean;
  readonly suppressesSilence: boolean;
  readonly maxConcurrent: number | undefined;
  readonly coalesce: WebhookRouteConfig["coalesce"];
}

export interface RouteDefaults {
  /** Secrets of routes that name none; references are resolved. */
  readonly secrets: readonly string[];
  /** Whether strangers can reach the receiver. */
  readonly isLoopback: boolean;
  /** The value behind `env:NAME`; text that is none stays. Undefined: the variable is not set. */
  readonly resolve: (secret: string) => string | undefined;
}

export type CheckedRoute = { readonly route: WebhookRoute } | { readonly flaws: readonly string[] };

/** A route as it is written, with what it takes over; or why it cannot be used, a clause each. */
export function checkRoute(
  name: string,
  written: Partial<WebhookRouteConfig>,
  defaults: RouteDefaults & { readonly origin: WebhookRoute["origin"] },
): CheckedRoute {
  const found = secretsOf(written, defaults);
  const flaws = [
    ...nameFlaws(name),
    ...("flaw" in found ? [found.flaw] : []),
    ...("secrets" in found && found.secrets === "none" && !defaults.isLoopback
      ? [`${NO_PROOF} is for loopback addresses only; give it a secret, or listen on 127.0.0.1`]
      : []),
    ...(written.deliver_only === true && (written.deliver ?? "log") === "log"
      ? ["deliver_only needs a real target in deliver"]
      : []),
    ...(written.deliver_only === true && written.coalesce !== undefined
      ? ["coalesce does not go with deliver_only"]
      : []),
    ...checkFilters(written.filters),
  ];
  if (flaws.length > 0 || "flaw" in found) return { flaws };
  return { route: toRoute(name, written, { origin: defaults.origin, secrets: found.secrets }) };
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

function nameFlaws(name: string): readonly string[] {
  return NAME.test(name) ? [] : ["a route's name has letters, digits, _, - and . only, at most 128"];
}

type FoundSecrets = { readonly secrets: WebhookRoute["secrets"] } | { readonly flaw: string };

function secretsOf(
  { secret, secrets = [] }: Partial<WebhookRouteConfig>,
  defaults: RouteDefaults,
): FoundSecrets {
  // An explicit empty secret takes over nothing: it is a mistake that would let everybody in.
  if (secret === "") return { flaw: "its secret is empty" };
  const own = [...(secret === undefined ? [] : [secret]), ...secrets];
  const written = own.length > 0 ? own : defaults.secrets;
  if (written.length === 0) return { flaw: "it has no secret, and there is none for all routes" };
  if (written.includes(NO_PROOF)) {
    return written.length === 1
      ? { secrets: "none" }
      : { flaw: `${NO_PROOF} does not go with other secrets` };
  }
  const missing = written.find((each) => !defaults.resolve(each));
  if (missing !== undefined)
    return { flaw: `its secret ${missing.startsWith("env:") ? missing : ""} is not set` };
  return { secrets: written.flatMap((each) => defaults.resolve(each) ?? []) };
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
    deliver: written.deliver ?? "log",
    deliverExtra: written.deliver_extra ?? {},
    deliverOnly: written.deliver_only === true,
    suppressesSilence: written.silent === "suppress",
    maxConcurrent: written.max_concurrent,
    coalesce: written.coalesce,
  };
}
