/** The platforms of a service: those that are set up get their targets, of the others messages learn what is missing. */
import type { Config } from "../../generated/config/types.gen.ts";
import { platformSettings, type PlatformName, type PlatformSettings } from "../config/platform-settings.ts";
import { platforms as traits } from "./platform-names.ts";
import type { Platform, PlatformParts } from "./platform.ts";
import type { Target } from "./target.ts";

type Loaders = { readonly [Name in PlatformName]?: () => Promise<Platform<PlatformSettings<Name>>> };

/** Loaded one by one: most services use one or two. */
const loaders: Loaders = {};

/** How a platform stands, for people. */
export type PlatformState =
  | { readonly status: "ready"; readonly target: Target }
  /** Keys that are missing, a clause each. */
  | { readonly status: "incomplete"; readonly missing: readonly string[] }
  | { readonly status: "disabled" };

/** Names of the platforms that there are targets for. */
export const platformNames = Object.keys(loaders) as readonly PlatformName[];

/** A target for each platform; of one that is not ready, one that says why of every message. */
export async function createPlatformTargets(
  config: Pick<Config, "platforms">,
  parts: PlatformParts,
): Promise<readonly Target[]> {
  return Promise.all(
    platformNames.map(async (name) => {
      const state = await platformState(name, config, parts);
      return state.status === "ready" ? state.target : unreadyTarget(name, state);
    }),
  );
}

/** How one platform stands. Its target, when it is ready, is a new one. */
export async function platformState<Name extends PlatformName>(
  name: Name,
  config: Pick<Config, "platforms">,
  parts: PlatformParts,
): Promise<PlatformState> {
  const isEnabled = config.platforms[name].enabled;
  if (isEnabled === false) return { status: "disabled" };
  const settings = platformSettings(name, config, parts.env);
  const platform = await load(name);
  const missing = platform.missing(settings);
  return missing.length > 0
    ? { status: "incomplete", missing }
    : { status: "ready", target: platform.create(settings, parts) };
}

/** What these settings lack before anything can be sent, a clause each. Empty: nothing. */
export async function missingSettings<Name extends PlatformName>(
  name: Name,
  settings: PlatformSettings<Name>,
): Promise<readonly string[]> {
  return (await load(name)).missing(settings);
}

async function load<Name extends PlatformName>(name: Name): Promise<Platform<PlatformSettings<Name>>> {
  const platform = await loaders[name]?.();
  if (platform) return platform;
  throw new TypeError(`There is no target ${name}.`);
}

/** Others of the same store may be set up, and this one may be soon: the message stays owed as long as others do. */
function unreadyTarget(
  name: PlatformName,
  state: Exclude<PlatformState, { readonly status: "ready" }>,
): Target {
  const { title } = traits[name];
  const remedy =
    state.status === "disabled"
      ? `is switched off: set platforms.${name}.enabled to true`
      : `is not set up: platforms.${name} lacks ${state.missing.join(" and ")}; \`agentd gateway setup\` asks for it`;
  return { name, send: async () => ({ status: "retry", error: `${title} ${remedy}.` }) };
}
