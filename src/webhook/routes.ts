import type { Log } from "../base/log.ts";
import { checkRoute, type RouteDefaults, type WebhookRoute } from "./route.ts";
import type { ReadSubscriptions } from "./subscriptions.ts";

export interface RoutesOptions {
  /** Those of the configuration; a subscription of the same name does not count. */
  readonly routes: readonly WebhookRoute[];
  readonly defaults: RouteDefaults;
  /** The file of subscriptions: tells one state of it from another, and what it holds. */
  readonly file: {
    stamp(): Promise<string | undefined>;
    read(): Promise<ReadSubscriptions>;
  };
  readonly log: Log;
}

/**
 * The routes that there are now. The file is looked at with every request, and read when it is another than before. A
 * file that cannot be understood changes nothing: the last one that could be is kept.
 */
export class WebhookRoutes {
  readonly #options: RoutesOptions;
  readonly #static: ReadonlyMap<string, WebhookRoute>;
  #dynamic: ReadonlyMap<string, WebhookRoute> = new Map();
  #stamp: string | undefined;
  #reading: Promise<void> | undefined;

  constructor(options: RoutesOptions) {
    this.#options = options;
    this.#static = new Map(options.routes.map((route) => [route.name, route]));
  }

  /** As of the last look at the file. */
  get names(): readonly string[] {
    return [...new Set([...this.#static.keys(), ...this.#dynamic.keys()])];
  }

  /** Undefined when there is none of this name. */
  async find(name: string): Promise<WebhookRoute | undefined> {
    const known = this.#static.get(name);
    if (known) return known;
    await this.refresh();
    return this.#dynamic.get(name);
  }

  /** Takes up what the file says now. One at a time: who comes meanwhile waits for a look that began after it came. */
  async refresh(): Promise<void> {
    await this.#reading;
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    await this.#reading;
  }

  async #read(): Promise<void> {
    const { file, log } = this.#options;
    try {
      const stamp = await file.stamp();
      if (stamp === this.#stamp) return;
      const read = await file.read();
      this.#stamp = stamp;
      if ("flaw" in read) {
        log.error("the file of webhook subscriptions cannot be used; what it held before stays", {
          flaw: read.flaw,
        });
        return;
      }
      this.#dynamic = this.#checked(read);
    } catch (error) {
      log.error("the file of webhook subscriptions cannot be read; what it held before stays", { error });
    }
  }

  /** One that cannot be used is left out, and said so: a subscription must not keep the others from being served. */
  #checked(read: Extract<ReadSubscriptions, { subscriptions: unknown }>): ReadonlyMap<string, WebhookRoute> {
    const { defaults, log } = this.#options;
    const routes = new Map<string, WebhookRoute>();
    for (const [name, written] of Object.entries(read.subscriptions)) {
      const checked = checkRoute(name, written, { ...defaults, origin: "dynamic" });
      if ("route" in checked) routes.set(name, checked.route);
      else
        log.warn("a webhook subscription cannot be used", { route: name, flaws: checked.flaws.join("; ") });
    }
    return routes;
  }
}
