/** A route that is created while the receiver runs, as its file keeps it. Pure. */
import type { WebhookRouteConfig } from "../../../generated/config/types.gen.ts";
import { isRecord } from "../../base/json/schema.ts";
import { checkConfig } from "../../config/check.ts";

/** Keys that a person adds by hand stay, even unknown ones. */
export interface Subscription extends Partial<WebhookRouteConfig> {
  /** ISO 8601, UTC. */
  readonly created_at?: string;
}

export type Subscriptions = Readonly<Record<string, Subscription>>;

export type ParsedSubscriptions =
  /** As written: {@link checkSubscription} finds the problems of each. */
  | { readonly subscriptions: Subscriptions }
  /** Why the file cannot be used, a clause. */
  | { readonly problem: string };

/** Parses the text of the file. Undefined (no file) and an empty text are no subscriptions. */
export function parseSubscriptions(text: string | undefined): ParsedSubscriptions {
  const json = (text ?? "").replace(/^\uFEFF/, "");
  if (json.trim() === "") return { subscriptions: {} };
  try {
    const value = JSON.parse(json) as unknown;
    if (!isRecord(value)) return { problem: "it must hold one JSON object, with a route under each name" };
    const invalid = Object.keys(value).find((name) => !isRecord(value[name]));
    if (invalid !== undefined) return { problem: `${JSON.stringify(invalid)} must be an object` };
    return { subscriptions: value as Subscriptions };
  } catch (error) {
    return { problem: `it is not JSON (${error instanceof Error ? error.message : String(error)})` };
  }
}

export function formatSubscriptions(subscriptions: Subscriptions): string {
  return `${JSON.stringify(subscriptions, null, 2)}\n`;
}

export interface CheckedSubscription {
  /** The known keys with valid values. */
  readonly written: Partial<WebhookRouteConfig>;
  /** Why it cannot be used, a clause each. */
  readonly problems: readonly string[];
  /** Keys without a meaning. */
  readonly unknown: readonly string[];
}

/** Keys that only subscriptions have. */
const EXTRA_KEYS = new Set(["created_at", "profile"]);

/** Checks a subscription against the schema of a route. It reports every invalid key: one may be there for protection. */
export function checkSubscription(subscription: Subscription): CheckedSubscription {
  const { filters } = subscription;
  const route = { ...subscription, ...(isRecord(filters) ? { filters: [filters] } : {}) };
  const { value, problems } = checkConfig({ platforms: { webhook: { routes: { route } } } });
  const found = problems.map(({ path, message, kind }) => ({ name: path.slice(4).join("."), message, kind }));
  return {
    written: writtenOf(value),
    problems: found.filter(({ kind }) => kind !== "unknown").map(({ name, message }) => `${name} ${message}`),
    unknown: found
      .filter(({ kind, name }) => kind === "unknown" && !EXTRA_KEYS.has(name))
      .map(({ name }) => name),
  };
}

function writtenOf(value: unknown): Partial<WebhookRouteConfig> {
  const { platforms } = value as {
    readonly platforms?: {
      readonly webhook?: { readonly routes?: { readonly route?: Partial<WebhookRouteConfig> } };
    };
  };
  return platforms?.webhook?.routes?.route ?? {};
}

/** The options of `agentd webhook subscribe`; undefined when an option is not given. */
export interface SubscribeInput {
  readonly description?: string | undefined;
  readonly events?: readonly string[] | undefined;
  readonly prompt?: string | undefined;
  readonly skills?: readonly string[] | undefined;
  readonly deliver?: string | undefined;
  readonly chatId?: string | undefined;
  readonly deliverOnly?: boolean | undefined;
  readonly script?: string | undefined;
  readonly retriesScript?: boolean | undefined;
}

/**
 * Returns the subscription for `input`. Keys that have an option are as given now, or absent; keys that a person wrote
 * into the file (filters, toolsets, more secrets ...) stay.
 */
export function subscriptionOf(
  input: SubscribeInput,
  { before, secret, createdAt }: { before: Subscription | undefined; secret: string; createdAt: string },
): Subscription {
  const extra = { ...before?.deliver_extra };
  delete extra["chat_id"];
  if (input.chatId !== undefined) extra["chat_id"] = input.chatId;
  const fromOptions = {
    ...(input.description ? { description: input.description } : {}),
    events: [...(input.events ?? [])],
    secret,
    ...(input.prompt === undefined ? {} : { prompt: input.prompt }),
    skills: [...(input.skills ?? [])],
    deliver: input.deliver ?? "log",
    ...(Object.keys(extra).length > 0 ? { deliver_extra: extra } : {}),
    ...(input.deliverOnly ? { deliver_only: true } : {}),
    ...(input.script === undefined ? {} : { script: input.script }),
    ...(input.retriesScript ? { retry_on_script_failure: true } : {}),
    created_at: before?.created_at ?? createdAt,
  };
  const kept = Object.entries(before ?? {}).filter(([name]) => !OPTION_KEYS.has(name));
  return { ...Object.fromEntries(kept), ...fromOptions };
}

/** Keys that the command sets, or removes when the option is not given. */
const OPTION_KEYS = new Set([
  "description",
  "events",
  "secret",
  "prompt",
  "skills",
  "deliver",
  "deliver_extra",
  "deliver_only",
  "script",
  "retry_on_script_failure",
  "created_at",
]);

const NAME = /^[a-z0-9][a-z0-9_-]{0,127}$/;

/** Returns the name in lower case with `-` for spaces. Undefined when a URL cannot contain it unescaped. */
export function subscriptionName(text: string): string | undefined {
  const name = text.trim().toLowerCase().replace(/\s+/g, "-");
  return NAME.test(name) ? name : undefined;
}
