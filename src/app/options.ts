import type { Config } from "../../generated/config/types.gen.ts";
import type { WireAgentOptions } from "./wire-agent.ts";
import type { Clock } from "../base/clock.ts";
import type { Environment } from "../config/home.ts";
import type { KeyRing } from "../http/edge/access.ts";
import type { HttpDeps } from "../http/deps.ts";
import type { Store } from "../store/store.ts";

/** What every service needs, whoever its clients are. */
export interface CoreOptions extends Omit<WireAgentOptions, "telemetry"> {
  /** Complete and valid, as `loadConfig` returns it. */
  readonly config: Config;
  readonly clock?: Clock;
  /** Flaws of the configuration that did not keep it from being used, a clause each. */
  readonly configProblems?: readonly string[];
  /** The environment of the process alone; default: `env`, which also has the variables of the home's file. */
  readonly processEnv?: Environment;
  /** One that is open already; default: that of `places.databaseUrl`. The service closes it. */
  readonly store?: Store;
}

export interface ServiceOptions extends CoreOptions {
  readonly keys: KeyRing;
  /** The bundled OpenAPI document. */
  readonly openApi: Readonly<Record<string, unknown>>;
  /** For tests: check every answer against the spec, and tell of every answer. */
  readonly validateResponses?: boolean;
  readonly observe?: HttpDeps["observe"];
}
