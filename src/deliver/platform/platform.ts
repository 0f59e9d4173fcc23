import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/observe/log.ts";
import type { Store } from "../../store/store.ts";
import type { Target } from "../target.ts";

/** What a platform's target may use of the service. */
export interface PlatformParts {
  readonly clock: Clock;
  readonly log: Log;
  /** Of agentd, for the header `user-agent`. */
  readonly version: string;
  /** Absolute path of the home of the service. */
  readonly agentHome: string;
  /** The environment, for programs that a target runs. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** For leases of platforms that allow one connection. */
  readonly store: Store;
}

/** A service that messages can be sent through: what it needs, and its target. One file each, beside the target's parts. */
export interface Platform<Settings> {
  readonly name: string;
  /**
   * What still has to be set before anything can be sent, a clause each that names the key and its variable, such as
   * `token (TELEGRAM_BOT_TOKEN)`. Empty: ready.
   */
  missing(settings: Settings): readonly string[];
  /** Only with settings of which nothing is missing. Opens no connection: `send` does, when the first message comes. */
  create(settings: Settings, parts: PlatformParts): Target;
}
