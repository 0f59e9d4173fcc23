/** A route that is made while the receiver runs, as its file keeps it. Pure. */
import type { WebhookRouteConfig } from "../../../generated/config/types.gen.ts";
import { isRecord } from "../../base/json/schema.ts";
import { checkConfig } from "../../config/check.ts";

/** What somebody added by hand stays, whether it is known here or not. */
export interface Subscription extends Partial<WebhookRouteConfig> {
  /** ISO 8601, UTC. */
  readonly created_at?: string;
}

export type Subscriptions = Readonly<Record<string, Subscription>>;

export type ParsedSubscriptions =
  /** Objects, as they are written: {@link checkSubscription} says which of them can be used. */
  | { readonly subscriptions: Subscriptions }
  /** What is wrong with the file, a clause. */
  | { readonly problem: string };

/** The text of the file. Undefined, for no file, and an empty file are no subscriptions. */
export function parseSubscriptions(text: string | undefined): ParsedSubscriptions {
  const json = (text ?? "").replace(/^\uFEFF/, "");
  if (json.trim() === "") return { subscriptions: {} };
  try {
    const value = JSON.parse(json) as unknown;
    if (!isRecord(value)) return { problem: "it must hold one JSON object, with a route under each name" };
    const strange = Object.keys(value).find((name) => !isRecord(value[name]));
    if (strange !== undefined) return { problem: `${JSON.stringify(strange)} must be an object` };
    return { subscriptions: value as Subscriptions };
  } catch (error) {
    return { problem: `it is no JSON (${error instanceof Error ? error.message : String(error)})` };
  }
}

export function formatSubscriptions(subscriptions: Subscriptions): string {
  return `${JSON.stringify(subscriptions, null, 2)}\n`;
}

export interface CheckedSubscription {
  /** What is known of it, in the right form. */
  readonly written: Partial<WebhookRouteConfig>;
  /** What keeps it from being used, a clause each. */
  readonly problems: readonly string[];
  /** Names in it that mean nothing here. */
  readonly unknown: readonly string[];
}

/** Names that subscriptions have and routes of the configuration do not. */
const NOTES = new Set(["created_at", "profile"]);

/** A subscription against the form of a route. What is wrong is never left out in silence: it might be what protects. */
export function checkSubscription(subscription: Subscription): CheckedSubscription {
  const { filters } = subscription;
  const route = { ...subscription, ...(isRecord(filters) ? { filters: [filters] } : {}) };
  const { value, problems } = checkConfig({ platforms: { webhook: { routes: { route } } } });
  const found = problems.map(({ path, message, kind }) => ({ name: path.slice(4).join("."), message, kind }));
  return {
    written: writtenOf(value),
    problems: found.filter(({ kind }) => kind !== "unknown").map(({ name, message }) => `${name} ${message}`),
    unknown: found.filter(({ kind, name }) => kind === "unknown" && !NOTES.has(name)).map(({ name }) => name),
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

/** What `agentd webhook subscribe` can say of a route. Undefined is what was not said. */
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
 * The subscription that was wished for. What can be said is as it was said now, or is not there; what only a hand can
 * write into the file (filters, toolsets, further secrets ...) stays as it was.
 */
export function subscriptionOf(
  input: SubscribeInput,
  { before, secret, createdAt }: { before: Subscription | undefined; secret: string; createdAt: string },
): Subscription {
  const extra = { ...before?.deliver_extra };
  delete extra["chat_id"];
  if (input.chatId !== undefined) extra["chat_id"] = input.chatId;
  const said = {
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
  const kept = Object.entries(before ?? {}).filter(([name]) => !SAID.has(name));
  return { ...Object.fromEntries(kept), ...said };
}

/** What a subscribe command says, even by saying nothing. */
const SAID = new Set([
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

/** The name that is meant: lower case, `-` for spaces. Undefined for one that cannot be in a URL as it is. */
export function subscriptionName(text: string): string | undefined {
  const name = text.trim().toLowerCase().replace(/\s+/g, "-");
  return NAME.test(name) ? name : undefined;
}
