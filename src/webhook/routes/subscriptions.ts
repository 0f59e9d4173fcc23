/** The routes that are created while the receiver runs, and their file. Touches the machine. */
import type { WebhookRouteConfig } from "../../../generated/config/types.gen.ts";
import { isRecord } from "../../base/data.ts";
import { checkConfig } from "../../config/check.ts";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { ServiceError } from "../../base/errors.ts";
import { withFileLock, writePrivateFile } from "../../config/home.ts";
import { checkRoute, type RetiringSecret, type RouteDefaults, type WebhookRoute } from "./route.ts";

/** Keys that a person adds by hand stay, even unknown ones. */
export interface Subscription extends Partial<WebhookRouteConfig> {
  /** ISO 8601, UTC. */
  readonly created_at?: string;
  /** Earlier secrets, as written, which are valid until a time (ISO 8601). */
  readonly retiring?: readonly { readonly secret: string; readonly until: string }[];
}

export type Subscriptions = Readonly<Record<string, Subscription>>;

export type ParsedSubscriptions =
  /** As written: {@link checkSubscription} finds the problems of each. */
  | { readonly subscriptions: Subscriptions }
  /** Why the file cannot be used, a clause. */
  | { readonly problem: string };

/** Parses the text of the file. Undefined (no file) and an empty text mean no subscriptions. */
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

function formatSubscriptions(subscriptions: Subscriptions): string {
  return `${JSON.stringify(subscriptions, null, 2)}\n`;
}

export interface CheckedSubscription {
  /** The known keys with valid values. */
  readonly written: Partial<WebhookRouteConfig>;
  /** As written. */
  readonly retiring: readonly RetiringSecret[];
  /** Why it cannot be used, a clause each. */
  readonly problems: readonly string[];
  /** Keys without a meaning. */
  readonly unknown: readonly string[];
}

/** Keys that only subscriptions have. */
const EXTRA_KEYS = new Set(["created_at", "profile", "retiring"]);

/**
 * Checks a subscription against the schema of a route. It reports every invalid key: one may be meant for protection.
 */
function checkSubscription(subscription: Subscription): CheckedSubscription {
  const { filters } = subscription;
  const route = { ...subscription, ...(isRecord(filters) ? { filters: [filters] } : {}) };
  const { value, problems } = checkConfig({ platforms: { webhook: { routes: { route } } } });
  const found = problems.map(({ path, message, kind }) => ({ name: path.slice(4).join("."), message, kind }));
  const invalid = found
    .filter(({ kind }) => kind !== "unknown")
    .map(({ name, message }) => `${name} ${message}`);
  const retiring = retiringOf(subscription);
  return {
    written: writtenOf(value),
    retiring: retiring ?? [],
    problems: retiring ? invalid : [...invalid, RETIRING_PROBLEM],
    unknown: found
      .filter(({ kind, name }) => kind === "unknown" && !EXTRA_KEYS.has(name))
      .map(({ name }) => name),
  };
}

const RETIRING_PROBLEM =
  "retiring must be a list of objects with secret and until, a time such as 2026-01-31T08:00:00Z";

/** Undefined: it is malformed. */
function retiringOf({ retiring = [] }: Subscription): readonly RetiringSecret[] | undefined {
  const list: readonly unknown[] = Array.isArray(retiring) ? retiring : [undefined];
  const read = list.flatMap((each) => {
    const { secret, until } = isRecord(each) ? each : {};
    const untilMs = typeof until === "string" ? Date.parse(until) : Number.NaN;
    return typeof secret === "string" && !Number.isNaN(untilMs) ? [{ secret, untilMs }] : [];
  });
  return read.length === list.length ? read : undefined;
}

/** A subscription that can be used, or why it cannot. */
export type CheckedEntry = (
  | { readonly route: WebhookRoute; readonly warnings: readonly string[] }
  | { readonly problems: readonly string[] }
) &
  Pick<CheckedSubscription, "written" | "retiring" | "unknown">;

/** Checks a subscription as the receiver does, and returns its route. */
export function checkEntry(name: string, entry: Subscription, defaults: RouteDefaults): CheckedEntry {
  const { problems, ...found } = checkSubscription(entry);
  const { written, retiring } = found;
  const checked = checkRoute(name, written, { ...defaults, origin: "dynamic", retiring });
  const all = [...problems, ...("problems" in checked ? checked.problems : [])];
  return "problems" in checked || all.length > 0 ? { ...found, problems: all } : { ...found, ...checked };
}

/** Returns why a subscription does not work, or not as written, a clause each. */
export function problemsOf(checked: CheckedEntry): readonly string[] {
  if ("problems" in checked) return checked.problems;
  return [...checked.warnings, ...checked.unknown.map((key) => `unknown key ${key}`)];
}

function writtenOf(value: unknown): Partial<WebhookRouteConfig> {
  const { platforms } = value as {
    readonly platforms?: {
      readonly webhook?: { readonly routes?: { readonly route?: Partial<WebhookRouteConfig> } };
    };
  };
  return platforms?.webhook?.routes?.route ?? {};
}

const NAME = /^[a-z0-9][a-z0-9_-]{0,127}$/;

/** Returns the name in lower case with `-` for spaces. Undefined when a URL cannot contain it unescaped. */
export function subscriptionName(text: string): string | undefined {
  const name = text.trim().toLowerCase().replace(/\s+/g, "-");
  return NAME.test(name) ? name : undefined;
}

const MAX_SUBSCRIPTIONS_BYTES = 10_485_760;

/** Identifies one state of a file without its content. */
export interface FileState {
  /** Differs between states, except those that were written within one tick of the file system's clock. */
  readonly stamp: string;
  /** Milliseconds since the epoch. */
  readonly changedAtMs: number;
}

export function subscriptionsPath(home: string): string {
  return join(home, "webhook_subscriptions.json");
}

/** Undefined when the file does not exist. Throws the error of the system when it cannot be read. */
export async function fileState(path: string): Promise<FileState | undefined> {
  const found = await unlessMissing(stat(path, { bigint: true }));
  if (!found) return undefined;
  const { mtimeNs, ctimeNs, size, ino, mtimeMs } = found;
  return { stamp: `${mtimeNs}:${ctimeNs}:${size}:${ino}`, changedAtMs: Number(mtimeMs) };
}

/** Undefined when the file does not exist. Throws the error of the system, and an Error for a file that is too large. */
export async function readSubscriptionsText(path: string): Promise<string | undefined> {
  const found = await unlessMissing(stat(path));
  if (!found) return undefined;
  if (found.size > MAX_SUBSCRIPTIONS_BYTES)
    throw new Error(`it has ${found.size} bytes; the limit is ${MAX_SUBSCRIPTIONS_BYTES}`);
  return unlessMissing(readFile(path, "utf8"));
}

/** ServiceError `invalid_config` when the file cannot be read. */
export async function loadSubscriptions(path: string): Promise<ParsedSubscriptions> {
  try {
    return parseSubscriptions(await readSubscriptionsText(path));
  } catch (error) {
    throw unusableFile(path, error instanceof Error ? error.message : String(error));
  }
}

/**
 * Changes the file atomically and under a lock, readable for its owner only. `change` returns the new subscriptions. When
 * `record` rejects, the file is as before.
 * ServiceError `invalid_config` for a file that cannot be parsed: it is not overwritten, so that a person can repair it.
 */
export async function changeSubscriptions(
  path: string,
  change: (subscriptions: Subscriptions) => Subscriptions,
  record?: () => Promise<void>,
): Promise<void> {
  await withFileLock(path, async () => {
    const parsed = await loadSubscriptions(path);
    if ("problem" in parsed) throw unusableFile(path, parsed.problem);
    await writePrivateFile(path, formatSubscriptions(change(parsed.subscriptions)));
    try {
      await record?.();
    } catch (error) {
      await writePrivateFile(path, formatSubscriptions(parsed.subscriptions));
      throw error;
    }
  });
}

/**
 * Writes the token with which a service verifies a route into a file of its own, readable for its owner only. A later one
 * replaces it. Resolves to the path.
 */
export async function keepVerificationToken(home: string, route: string, token: string): Promise<string> {
  const path = join(home, "webhook_verification", `${route}.txt`);
  await writePrivateFile(path, `${token}\n`);
  return path;
}

/** Returns the error for a file that cannot be read or parsed. */
export function unusableFile(path: string, problem: string): ServiceError {
  const hint = "Correct the file, or move it away to start over";
  return new ServiceError("invalid_config", `${path} cannot be used: ${problem}. ${hint}.`);
}

async function unlessMissing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if ((error as { readonly code?: string }).code === "ENOENT") return undefined;
    throw error;
  }
}
