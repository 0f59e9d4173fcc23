/** Returns the status of the platforms: configured and missing settings. */
import type { Config } from "../../../generated/config/types.gen.ts";
import type { Environment } from "../../config/home.ts";
import { platformSettings, type PlatformName } from "../../config/platform-settings.ts";
import { platforms as traits } from "../target.ts";
import { missingSettings, platformNames } from "./platforms.ts";

/** incomplete: some of the required keys are set. unset: no key is set. off: disabled in the configuration. */
type PlatformReadiness = "ready" | "incomplete" | "unset" | "off";

export interface PlatformStatus {
  readonly name: PlatformName;
  /** Display name. */
  readonly title: string;
  readonly status: PlatformReadiness;
  /** The missing settings, one clause each, even for a disabled platform. */
  readonly missing: readonly string[];
  /** Keys that are set in the file or the environment. */
  readonly keys: readonly string[];
  /** Home channel: chat, or chat and thread. */
  readonly home: string | undefined;
}

/** Returns the status of every platform, in the usual order. */
export async function statuses(
  config: Pick<Config, "platforms">,
  env: Environment,
): Promise<readonly PlatformStatus[]> {
  const names = Object.keys(traits).flatMap((each) => platformNames.find((name) => name === each) ?? []);
  return Promise.all(names.map((name) => statusOf(name, config, env)));
}

export async function statusOf(
  name: PlatformName,
  config: Pick<Config, "platforms">,
  env: Environment,
): Promise<PlatformStatus> {
  const settings = platformSettings(name, config, env);
  const missing = await missingSettings(name, settings);
  const keys = Object.keys(settings);
  const own = keys.length > 0 ? "incomplete" : "unset";
  const isOff = config.platforms[name].enabled === false;
  return {
    name,
    title: traits[name].title,
    status: isOff ? "off" : missing.length === 0 ? "ready" : own,
    missing,
    keys,
    home: homeOf(settings),
  };
}

function homeOf(settings: object): string | undefined {
  const { home_channel: chat, home_thread: thread } = settings as {
    readonly home_channel?: string;
    readonly home_thread?: string;
  };
  return chat !== undefined && thread !== undefined ? `${chat}:${thread}` : chat;
}
