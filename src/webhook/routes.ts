/** The routes that there are now: those of the configuration before those of the file of subscriptions. */
import type { WebhookRoute } from "./route.ts";

export class WebhookRoutes {
  readonly #static: ReadonlyMap<string, WebhookRoute>;

  constructor(routes: readonly WebhookRoute[]) {
    this.#static = new Map(routes.map((route) => [route.name, route]));
  }

  get names(): readonly string[] {
    return [...this.#static.keys()];
  }

  /** Undefined when there is none of this name. */
  async find(name: string): Promise<WebhookRoute | undefined> {
    return this.#static.get(name);
  }
}
