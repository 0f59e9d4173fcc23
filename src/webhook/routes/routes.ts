import type { Clock } from "../../base/time.ts";
import { type Log, forgetSecret, registerSecret } from "../../base/observe.ts";
import { platformsOf } from "../../deliver/address.ts";
import { type RouteDefaults, type WebhookRoute, findDeliveryGaps } from "./route.ts";
import { checkEntry, parseSubscriptions, type FileState, type Subscriptions } from "./subscriptions.ts";

export interface RoutesOptions {
  /** The routes of the configuration; a subscription of the same name is ignored. */
  readonly routes: readonly WebhookRoute[];
  readonly defaults: RouteDefaults;
  /** The subscriptions file. Both functions reject when it cannot be read. */
  readonly file: {
    state(): Promise<FileState | undefined>;
    text(): Promise<string | undefined>;
  };
  /** Returns what keeps the named platforms from sending, a sentence each. */
  readonly platformProblems?: (names: readonly string[]) => Promise<readonly string[]>;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
}

/** Some file systems count in seconds: a younger file may change without its times changing, so its text is compared. */
const YOUNG_MS = 2_500;

/**
 * The current routes. Each request to a route that is not in the configuration checks the subscriptions file, and reads it
 * when it changed. A file that cannot be parsed changes nothing: the last valid one applies. Without a file there are no
 * subscriptions.
 */
export class WebhookRoutes {
  readonly #options: RoutesOptions;
  readonly #static: ReadonlyMap<string, WebhookRoute>;
  #dynamic: ReadonlyMap<string, WebhookRoute> = new Map();
  #stamp: string | undefined;
  /** The text that was read last, valid or not. */
  #text: string | undefined;
  #isYoung = false;
  /** The last logged error: each is logged once. */
  #loggedError: string | undefined;
  #reading: Promise<void> | undefined;

  constructor(options: RoutesOptions) {
    this.#options = options;
    this.#static = new Map(options.routes.map((route) => [route.name, route]));
  }

  /** As of the last check of the file. */
  get names(): readonly string[] {
    return [...this.#static.keys(), ...this.#dynamic.keys()];
  }

  /** Undefined when no route has this name. */
  async find(name: string): Promise<WebhookRoute | undefined> {
    const known = this.#static.get(name);
    if (known) return known;
    await this.refresh();
    return this.#dynamic.get(name);
  }

  /** Logs the routes that deliver to platforms without their settings; those may follow. Never rejects. */
  async warnOfPlatforms(routes: Iterable<WebhookRoute> = this.#static.values()): Promise<void> {
    const { platformProblems, log } = this.#options;
    try {
      for (const route of routes) {
        const unready = (await platformProblems?.(platformsOf(route.deliver))) ?? [];
        const problems = [...findDeliveryGaps(route), ...unready];
        if (problems.length > 0)
          log.warn("a webhook route delivers to a platform that is not set up", {
            route: route.name,
            problems: problems.join("; "),
          });
      }
    } catch (error) {
      log.warn("cannot check whether platforms are set up", { error });
    }
  }

  /** Applies the current file. One check runs at a time; a caller waits for one that began after its call. */
  async refresh(): Promise<void> {
    await this.#reading;
    this.#reading ??= this.#check().finally(() => (this.#reading = undefined));
    await this.#reading;
  }

  async #check(): Promise<void> {
    try {
      const state = await this.#options.file.state();
      if (state?.stamp === this.#stamp && !this.#isYoung) return;
      const nowMs = this.#options.clock.now();
      const text = await this.#options.file.text();
      this.#isYoung = state !== undefined && nowMs - state.changedAtMs < YOUNG_MS;
      this.#stamp = state?.stamp;
      this.#loggedError = undefined;
      if (text === this.#text) return;
      this.#apply(text);
      await this.warnOfPlatforms(this.#dynamic.values());
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (message === this.#loggedError) return;
      this.#loggedError = message;
      this.#options.log.error(UNREADABLE, { error });
    }
  }

  #apply(text: string | undefined): void {
    this.#text = text;
    const parsed = parseSubscriptions(text);
    if ("problem" in parsed) return this.#options.log.error(UNREADABLE, { problem: parsed.problem });
    const before = secretsOf(this.#dynamic);
    this.#dynamic = this.#checked(parsed.subscriptions);
    const now = secretsOf(this.#dynamic);
    for (const secret of now.difference(before)) registerSecret(secret);
    for (const secret of before.difference(now)) forgetSecret(secret);
  }

  /** Leaves out a subscription that cannot be used, and logs why: it must not stop the others. */
  #checked(subscriptions: Subscriptions): ReadonlyMap<string, WebhookRoute> {
    const { defaults, log } = this.#options;
    const routes = new Map<string, WebhookRoute>();
    for (const [route, subscription] of Object.entries(subscriptions)) {
      if (this.#static.has(route)) {
        log.warn("a webhook subscription is ignored: a configured route has its name", { route });
        continue;
      }
      const checked = checkEntry(route, subscription, defaults);
      const { unknown } = checked;
      if (unknown.length > 0) log.warn("a webhook subscription has unknown keys", { route, unknown });
      if ("problems" in checked) {
        log.warn("a webhook subscription cannot be used", { route, problems: checked.problems.join("; ") });
        continue;
      }
      const { warnings } = checked;
      if (warnings.length > 0)
        log.warn("a webhook subscription needs attention", { route, problems: warnings.join("; ") });
      routes.set(route, checked.route);
    }
    return routes;
  }
}

function secretsOf(routes: ReadonlyMap<string, WebhookRoute>): ReadonlySet<string> {
  const all = [...routes.values()].flatMap(({ secrets, retiring, verifyToken = [] }) => [
    ...(secrets === "none" ? [] : secrets),
    ...retiring.map(({ secret }) => secret),
    ...[verifyToken].flat(),
  ]);
  return new Set(all);
}

const UNREADABLE = "the webhook subscriptions file cannot be used; the last valid one applies";
