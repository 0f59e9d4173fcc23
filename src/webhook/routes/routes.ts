import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/observe/log.ts";
import { platformsOf } from "../../deliver/address.ts";
import { forgetSecret, registerSecret } from "../../base/observe/redact.ts";
import { checkRoute, type RouteDefaults, type WebhookRoute } from "./route.ts";
import { checkSubscription, parseSubscriptions, type Subscriptions } from "./subscription.ts";
import type { FileState } from "./subscriptions.ts";

export interface RoutesOptions {
  /** Those of the configuration; a subscription of the same name does not count. */
  readonly routes: readonly WebhookRoute[];
  readonly defaults: RouteDefaults;
  /** The file of subscriptions. Both reject when the system does not let it be read. */
  readonly file: {
    state(): Promise<FileState | undefined>;
    text(): Promise<string | undefined>;
  };
  /** What keeps platforms of these names from sending, a sentence each. Default: nothing is known of any. */
  readonly platformProblems?: (names: readonly string[]) => Promise<readonly string[]>;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
}

/**
 * A file that was written so short a time before it was read may be written again without its times changing: some file
 * systems count in seconds. Until it is older, its text is compared.
 */
const YOUNG_MS = 2_500;

/**
 * The routes that there are now. The file of subscriptions is looked at with every request that the configuration has no
 * route for, and read when it is another than before. A file that cannot be understood changes nothing: what the last
 * good one said holds. No file is no subscriptions.
 */
export class WebhookRoutes {
  readonly #options: RoutesOptions;
  readonly #static: ReadonlyMap<string, WebhookRoute>;
  #dynamic: ReadonlyMap<string, WebhookRoute> = new Map();
  #stamp: string | undefined;
  /** What was read last, good or not. */
  #text: string | undefined;
  #isYoung = false;
  /** What was told of a file that cannot be read: once is enough. */
  #told: string | undefined;
  #reading: Promise<void> | undefined;

  constructor(options: RoutesOptions) {
    this.#options = options;
    this.#static = new Map(options.routes.map((route) => [route.name, route]));
  }

  /** As of the last look at the file. */
  get names(): readonly string[] {
    return [...this.#static.keys(), ...this.#dynamic.keys()];
  }

  /** Undefined when there is none of this name. */
  async find(name: string): Promise<WebhookRoute | undefined> {
    const known = this.#static.get(name);
    if (known) return known;
    await this.refresh();
    return this.#dynamic.get(name);
  }

  /** Tells of platforms that routes deliver to and that are not set up: by then they may be. Never rejects. */
  async warnOfPlatforms(routes: Iterable<WebhookRoute> = this.#static.values()): Promise<void> {
    const { platformProblems, log } = this.#options;
    try {
      for (const { name: route, deliver } of routes) {
        const problems = (await platformProblems?.(platformsOf(deliver))) ?? [];
        if (problems.length > 0)
          log.warn("a webhook route delivers to what is not set up", {
            route,
            problems: problems.join("; "),
          });
      }
    } catch (error) {
      log.warn("whether platforms are set up could not be found out", { error });
    }
  }

  /** Takes up what the file says now. One at a time: who comes meanwhile waits for a look that began after it came. */
  async refresh(): Promise<void> {
    await this.#reading;
    this.#reading ??= this.#look().finally(() => (this.#reading = undefined));
    await this.#reading;
  }

  async #look(): Promise<void> {
    try {
      const state = await this.#options.file.state();
      if (state?.stamp === this.#stamp && !this.#isYoung) return;
      const nowMs = this.#options.clock.now();
      const text = await this.#options.file.text();
      this.#isYoung = state !== undefined && nowMs - state.changedAtMs < YOUNG_MS;
      this.#stamp = state?.stamp;
      this.#told = undefined;
      if (text === this.#text) return;
      this.#take(text);
      await this.warnOfPlatforms(this.#dynamic.values());
    } catch (error) {
      const told = error instanceof Error ? error.message : String(error);
      if (told === this.#told) return;
      this.#told = told;
      this.#options.log.error(UNREADABLE, { error });
    }
  }

  #take(text: string | undefined): void {
    this.#text = text;
    const parsed = parseSubscriptions(text);
    if ("problem" in parsed) return this.#options.log.error(UNREADABLE, { problem: parsed.problem });
    const before = secretsOf(this.#dynamic);
    this.#dynamic = this.#checked(parsed.subscriptions);
    const now = secretsOf(this.#dynamic);
    for (const secret of now.difference(before)) registerSecret(secret);
    for (const secret of before.difference(now)) forgetSecret(secret);
  }

  /** One that cannot be used is left out, and said so: it must not keep the others from being served. */
  #checked(subscriptions: Subscriptions): ReadonlyMap<string, WebhookRoute> {
    const { defaults, log } = this.#options;
    const routes = new Map<string, WebhookRoute>();
    for (const [route, subscription] of Object.entries(subscriptions)) {
      if (this.#static.has(route)) {
        log.warn("a webhook subscription has the name of a configured route, which counts", { route });
        continue;
      }
      const { written, problems, unknown } = checkSubscription(subscription);
      const checked = checkRoute(route, written, { ...defaults, origin: "dynamic" });
      if (unknown.length > 0)
        log.warn("a webhook subscription has keys that mean nothing", { route, unknown });
      if ("problems" in checked || problems.length > 0) {
        const all = [...problems, ...("problems" in checked ? checked.problems : [])];
        log.warn("a webhook subscription cannot be used", { route, problems: all.join("; ") });
        continue;
      }
      const { warnings } = checked;
      if (warnings.length > 0)
        log.warn("filters of a webhook subscription never match", { route, problems: warnings.join("; ") });
      routes.set(route, checked.route);
    }
    return routes;
  }
}

function secretsOf(routes: ReadonlyMap<string, WebhookRoute>): ReadonlySet<string> {
  return new Set([...routes.values()].flatMap(({ secrets }) => (secrets === "none" ? [] : secrets)));
}

const UNREADABLE = "the file of webhook subscriptions cannot be used; what it said before holds";
