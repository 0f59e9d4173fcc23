/** Options of the commands about platforms. Pure. */
import { suggest } from "../../base/nearest.ts";
import type { PlatformName } from "../../config/platform-settings.ts";
import { platforms as traits } from "../../deliver/platform/names.ts";
import { platformNames } from "../../deliver/platform/platforms.ts";
import { UsageError } from "../kit/arguments.ts";

/** A platform that can be set up. UsageError for any other. */
export function toPlatform(text: string): PlatformName {
  const found = platformNames.find((name) => name === text);
  if (found) return found;
  if (Object.hasOwn(traits, text))
    throw new UsageError(`${text} needs nothing set up, and there is nothing to test.`);
  throw new UsageError(`${JSON.stringify(text)} is no platform${suggest(text, platformNames)}`);
}

/** `key=value`, as the option of this name has it. The value never stands in the error. */
export function toPair(text: string, option: string): readonly [string, string] {
  const at = text.indexOf("=");
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw new UsageError(`--${option} must be key=value.`);
}
