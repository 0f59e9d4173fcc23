/** The routes as people manage them: those of the configuration, and subscriptions, which can change. Touches the machine. */
import { randomBytes } from "node:crypto";
import type { WebhookRouteConfig } from "../../../generated/config/types.gen.ts";
import { mergePatch } from "../../base/data.ts";
import { ServiceError } from "../../base/errors.ts";
import { sha256 } from "../../base/text.ts";
import type { Clock } from "../../base/time.ts";
import { platformsOf } from "../../deliver/address.ts";
import type { Store, Tx } from "../../store/store.ts";
import {
  checkRoute,
  DEFAULT_OWNER,
  findDeliveryGaps,
  NO_AUTH,
  type RetiringSecret,
  type RouteDefaults,
  type WebhookRoute,
  type WebhookSettings,
} from "./route.ts";
import {
  changeSubscriptions,
  checkEntry,
  loadSubscriptions,
  problemsOf,
  unusableFile,
  type Subscription,
  type Subscriptions,
} from "./subscriptions.ts";

/** A route as it is written, and as it is served. */
export interface ManagedRoute {
  readonly name: string;
  readonly owner: string;
  readonly source: "config" | "subscription";
  /** As it is in the file, with its secrets. */
  readonly written: Subscription;
  /** The known keys with valid values, with the secrets. */
  readonly valid: Partial<WebhookRouteConfig>;
  /** Earlier secrets, as written. */
  readonly retiring: readonly RetiringSecret[];
  /** Undefined: it cannot be used. */
  readonly route: WebhookRoute | undefined;
  /** Why it does not work, or not as written, a clause each. */
  readonly issues: readonly string[];
}

export interface RouteServiceOptions {
  readonly settings: Pick<WebhookSettings, "routes">;
  readonly defaults: RouteDefaults;
  /** The subscriptions file. */
  readonly path: string;
  readonly store: Store;
  readonly clock: Pick<Clock, "now">;
  /** Returns what keeps the named platforms from sending, a sentence each. */
  readonly platformProblems: (names: readonly string[]) => Promise<readonly string[]>;
  /** Applies the file to the receiver of this process, so that logs redact new secrets at once. */
  readonly apply: () => Promise<void>;
}

export interface RouteChange {
  /** Absent: of any owner. */
  readonly owner?: string;
  /** Who makes it, such as the name of a key. */
  readonly actor: string;
  /** True: it is checked, and nothing is stored. */
  readonly dryRun?: boolean;
  /** Throws when the current route is not the one that the caller knows. */
  readonly check?: (route: ManagedRoute) => void;
  /** Records more in the transaction that records the change. */
  readonly alsoRecord?: (tx: Tx) => Promise<void>;
}

/** The fields of a new route; null is the default. */
export interface NewRoute extends Readonly<Record<string, unknown>> {
  readonly secret?: string | undefined;
}

/** A route with its new secret, which is shown once. */
export interface ChangedSecret {
  readonly managed: ManagedRoute;
  /** As written. */
  readonly secret: string;
}

const SECRET_BYTES = 32;
/** The secrets that a route accepts at the same time. */
const MAX_RETIRING = 8;

/** Lists, creates, changes and deletes routes. Receivers of the home apply a change at the next request. */
export class RouteService {
  readonly #options: RouteServiceOptions;

  constructor(options: RouteServiceOptions) {
    this.#options = options;
  }

  /** Returns all routes by name, with their issues. ServiceError `invalid_config` for a broken subscriptions file. */
  async list({ owner }: { readonly owner?: string }): Promise<readonly ManagedRoute[]> {
    const subscriptions = await this.#read();
    const { routes } = this.#options.settings;
    const names = new Set([...Object.keys(routes), ...Object.keys(subscriptions)]);
    const found = [...names].toSorted(byCodeUnit).flatMap((name) => this.#find(name, subscriptions) ?? []);
    return found.filter((route) => owner === undefined || route.owner === owner);
  }

  /** Returns a route of the owner. ServiceError `route_not_found`. */
  async get(name: string, { owner }: { readonly owner?: string }): Promise<ManagedRoute> {
    return this.#require(name, await this.#read(), owner);
  }

  /** Returns the issues of a route, with those of the platforms that it delivers to. */
  async issuesOf({ route, issues }: ManagedRoute): Promise<readonly string[]> {
    if (!route) return issues;
    const unready = await this.#options.platformProblems(platformsOf(route.deliver));
    return [...issues, ...findDeliveryGaps(route), ...unready];
  }

  /** Creates a subscription, by default with a new secret. ServiceError `route_exists`, `invalid_config`. */
  async create(
    name: string,
    { secret = createSecret(), ...fields }: NewRoute,
    change: RouteChange & { readonly owner: string },
  ): Promise<ChangedSecret> {
    const { owner } = change;
    const managed = await this.#change("route.created", name, change, (subscriptions) => {
      if (this.#find(name, subscriptions)) {
        const what = `A route ${JSON.stringify(name)} exists already. Choose another name, or change that route.`;
        throw new ServiceError("route_exists", what, { param: "name" });
      }
      const written = mergePatch({}, fields) as Subscription;
      return { ...written, owner, secret, created_at: new Date(this.#options.clock.now()).toISOString() };
    });
    return { managed, secret };
  }

  /** Applies a JSON Merge Patch to a subscription. ServiceError `route_not_found`, `route_is_static`, `invalid_config`. */
  async update(
    name: string,
    patch: Readonly<Record<string, unknown>>,
    change: RouteChange,
  ): Promise<ManagedRoute> {
    return this.#change("route.updated", name, change, (subscriptions) =>
      patchRoute(this.#changeable(name, subscriptions, change).written, patch),
    );
  }

  /** Deletes a subscription. ServiceError `route_not_found`, `route_is_static`. */
  async delete(name: string, change: RouteChange): Promise<void> {
    const { path } = this.#options;
    let owner = DEFAULT_OWNER;
    await changeSubscriptions(
      path,
      (subscriptions) => {
        owner = this.#changeable(name, subscriptions, change).owner;
        return Object.fromEntries(Object.entries(subscriptions).filter(([each]) => each !== name));
      },
      () => this.#record("route.deleted", { name, owner, data: {} }, change),
    );
    await this.#options.apply();
  }

  /**
   * Replaces the secrets of a subscription by one, by default a new one. The others stay valid for `keepMs`. ServiceError `route_not_found`,
   * `route_is_static`, `invalid_config`.
   */
  async rotate(
    name: string,
    { secret = createSecret(), keepMs }: { readonly secret?: string | undefined; readonly keepMs: number },
    change: RouteChange,
  ): Promise<ChangedSecret> {
    const { defaults, clock } = this.#options;
    const managed = await this.#change("route.updated", name, change, (subscriptions) => {
      const before = this.#changeable(name, subscriptions, change);
      return rotated(before, { secret, keepMs, inherited: defaults.secrets, nowMs: clock.now() });
    });
    return { managed, secret };
  }

  /** Returns a route with a patch, for a dry run. ServiceError `invalid_config` when it cannot be used. */
  usable(managed: ManagedRoute, patch: Readonly<Record<string, unknown>> = {}): WebhookRoute {
    const { name, source, owner } = managed;
    const written = { ...patchRoute(managed.written, patch), owner };
    return requireRoute(this.#toManaged(name, source, written));
  }

  async #change(
    type: "route.created" | "route.updated",
    name: string,
    change: RouteChange,
    entryOf: (subscriptions: Subscriptions) => Subscription,
  ): Promise<ManagedRoute> {
    const next = (subscriptions: Subscriptions): ManagedRoute => {
      const managed = this.#toManaged(name, "subscription", entryOf(subscriptions));
      requireRoute(managed);
      return managed;
    };
    if (change.dryRun) return next(await this.#read());
    let made: ManagedRoute | undefined;
    await changeSubscriptions(
      this.#options.path,
      (subscriptions) => {
        made = next(subscriptions);
        return { ...subscriptions, [name]: made.written };
      },
      async () => {
        if (!made?.route) return;
        const { owner, route } = made;
        await this.#record(type, { name, owner, data: { enabled: route.isEnabled } }, change);
      },
    );
    if (!made) throw new TypeError("The subscriptions were not changed.");
    await this.#options.apply();
    return made;
  }

  async #record(
    type: "route.created" | "route.updated" | "route.deleted",
    { name, owner, data }: Pick<ManagedRoute, "name" | "owner"> & { readonly data: object },
    { actor, alsoRecord }: RouteChange,
  ): Promise<void> {
    await this.#options.store.write(async (tx) => {
      await alsoRecord?.(tx);
      tx.record({ type, ref: name, owner, actor, data: { ...data } });
    });
  }

  async #read(): Promise<Subscriptions> {
    const { path } = this.#options;
    const parsed = await loadSubscriptions(path);
    if ("problem" in parsed) throw unusableFile(path, parsed.problem);
    return parsed.subscriptions;
  }

  #find(name: string, subscriptions: Subscriptions): ManagedRoute | undefined {
    const { routes } = this.#options.settings;
    const configured = Object.hasOwn(routes, name) ? routes[name] : undefined;
    if (configured) return this.#toManaged(name, "config", configured);
    const entry = Object.hasOwn(subscriptions, name) ? subscriptions[name] : undefined;
    return entry && this.#toManaged(name, "subscription", entry);
  }

  #require(name: string, subscriptions: Subscriptions, owner: string | undefined): ManagedRoute {
    const found = this.#find(name, subscriptions);
    if (found && (owner === undefined || found.owner === owner)) return found;
    throw new ServiceError("route_not_found", `Route ${JSON.stringify(name)} does not exist.`);
  }

  #changeable(name: string, subscriptions: Subscriptions, { owner, check }: RouteChange): ManagedRoute {
    const found = this.#require(name, subscriptions, owner);
    if (found.source === "config") {
      const what = `Route ${JSON.stringify(name)} is in the configuration. Change it in platforms.webhook.routes.`;
      throw new ServiceError("route_is_static", what);
    }
    check?.(found);
    return found;
  }

  #toManaged(name: string, source: ManagedRoute["source"], written: Subscription): ManagedRoute {
    const { defaults } = this.#options;
    const owner = typeof written.owner === "string" ? written.owner : DEFAULT_OWNER;
    if (source === "subscription") {
      const entry = checkEntry(name, written, defaults);
      const route = "route" in entry ? entry.route : undefined;
      const { written: valid, retiring } = entry;
      return { name, owner, source, written, valid, retiring, route, issues: problemsOf(entry) };
    }
    const checked = checkRoute(name, written, { ...defaults, origin: "static" });
    const route = "route" in checked ? checked.route : undefined;
    const issues = "problems" in checked ? checked.problems : checked.warnings;
    return { name, owner, source, written, valid: written, retiring: [], route, issues };
  }
}

function createSecret(): string {
  return randomBytes(SECRET_BYTES).toString("base64url");
}

const byCodeUnit = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function requireRoute({ name, route, issues }: ManagedRoute): WebhookRoute {
  if (route) return route;
  const what = `The route ${name} is invalid: ${issues.join("; ")}. Nothing was changed.`;
  throw new ServiceError("invalid_config", what, { details: { issues } });
}

function patchRoute(written: Subscription, patch: Readonly<Record<string, unknown>>): Subscription {
  return mergePatch(written, patch) as Subscription;
}

interface Rotation {
  readonly secret: string;
  readonly keepMs: number;
  /** Secrets of routes that have none of their own. */
  readonly inherited: readonly string[];
  readonly nowMs: number;
}

function rotated(
  { written, valid, retiring }: ManagedRoute,
  { secret, keepMs, inherited, nowMs }: Rotation,
): Subscription {
  const untilMs = nowMs + keepMs;
  const previous = ownSecrets(valid, inherited).map((each) => ({ secret: each, untilMs }));
  // Earlier rotations must not outlive this one: it may answer a leak.
  const earlier = retiring.map((each) => ({ ...each, untilMs: Math.min(each.untilMs, untilMs) }));
  const kept = [...previous, ...earlier].filter(
    (each) => each.untilMs > nowMs && each.secret !== secret && each.secret !== NO_AUTH,
  );
  const entries = kept
    .slice(0, MAX_RETIRING)
    .map((each) => ({ secret: each.secret, until: new Date(each.untilMs).toISOString() }));
  const { secrets: _, retiring: __, ...rest } = written;
  return { ...rest, secret, ...(entries.length > 0 ? { retiring: entries } : {}) };
}

function ownSecrets(
  { secret, secrets = [] }: Partial<WebhookRouteConfig>,
  inherited: readonly string[],
): readonly string[] {
  const own = [...(secret === undefined ? [] : [secret]), ...secrets];
  return own.length > 0 ? own : inherited;
}

/** What may be shown of a secret. */
export interface ShownSecret {
  /** Null: it could be guessed from it, or the variable is not set. */
  readonly fingerprint: string | null;
  readonly from: "env" | "inline";
  readonly expiresAtMs: number | null;
}

/** A shorter secret may be one that people made up, which could be found by its digest. */
const MIN_SHOWN_CHARACTERS = 24;
const FINGERPRINT_DIGITS = 12;

/** Returns the secrets that a route accepts now, the current ones first; none when it requires none. */
export function shownSecrets(
  { valid, retiring }: Pick<ManagedRoute, "valid" | "retiring">,
  { defaults, nowMs }: { readonly defaults: RouteDefaults; readonly nowMs: number },
): readonly ShownSecret[] {
  const show = (text: string, expiresAtMs: number | null): ShownSecret => {
    const value = defaults.resolve(text) ?? "";
    const isLong = value.length >= MIN_SHOWN_CHARACTERS;
    const fingerprint = isLong ? sha256(value).slice(0, FINGERPRINT_DIGITS) : null;
    return { fingerprint, from: text.startsWith("env:") ? "env" : "inline", expiresAtMs };
  };
  const current = ownSecrets(valid, defaults.secrets).filter((each) => each !== NO_AUTH);
  const earlier = retiring.filter(({ untilMs }) => untilMs > nowMs);
  return [
    ...current.map((text) => show(text, null)),
    ...earlier.map(({ secret, untilMs }) => show(secret, untilMs)),
  ];
}
