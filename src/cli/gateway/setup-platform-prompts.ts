/** Asks a person at the terminal what a platform needs. Nothing is written here. */
import type { Environment } from "../../config/home.ts";
import { platformKeys, type PlatformKey, type PlatformName } from "../../config/platform-settings.ts";
import { missingSettings } from "../../deliver/platform/platforms.ts";
import type { PlatformAnswers } from "./setup-platform.ts";
import type { PlatformStatus } from "../platforms/status.ts";

const MARKS: Readonly<Record<PlatformStatus["status"], string>> = {
  ready: "is ready",
  incomplete: "incomplete",
  unset: "",
  off: "switched off",
};

/** Undefined when the person broke off. */
export async function askPlatform(
  statuses: readonly PlatformStatus[],
  env: Environment,
): Promise<PlatformAnswers | undefined> {
  const ask = await import("@clack/prompts");
  const options = statuses.map(({ name, title, status }) => ({
    value: name,
    label: title,
    ...(MARKS[status] === "" ? {} : { hint: MARKS[status] }),
  }));
  const platform = await ask.select<PlatformName>({ message: "Which platform?", options, maxItems: 10 });
  if (ask.isCancel(platform)) return undefined;
  const standing = statuses.find(({ name }) => name === platform);
  const values = new Map<string, string>();
  const needed = await neededKeys(platform, standing);
  const asked = platformKeys(platform).filter(
    ({ key, variables }) => variables.length > 0 || needed.has(key),
  );
  for (const key of asked) {
    if (key.key === "home_thread" && !values.has("home_channel")) continue;
    const isSet = standing?.keys.includes(key.key) === true;
    const message = messageOf(key, { isSet, isNeeded: needed.has(key.key) });
    const typed = key.isSecret ? await ask.password({ message }) : await ask.text({ message });
    if (ask.isCancel(typed)) return undefined;
    if (typed?.trim()) values.set(key.key, typed.trim());
    const overruling = key.isSecret ? key.variables.find((name) => env[name]) : undefined;
    if (typed?.trim() && overruling !== undefined) {
      ask.log.warn(`${overruling} is set in the environment, and counts before <home>/.env.`);
    }
  }
  return { platform, values };
}

/** What the platform says is needed, from nothing and from how it stands. */
async function neededKeys(
  platform: PlatformName,
  standing: PlatformStatus | undefined,
): Promise<ReadonlySet<string>> {
  const clauses = [...(await missingSettings(platform, {})), ...(standing?.missing ?? [])].join(" ");
  return new Set(clauses.match(/[a-z][a-z0-9_]*/g));
}

function messageOf(
  { key, description }: PlatformKey,
  { isSet, isNeeded }: { readonly isSet: boolean; readonly isNeeded: boolean },
): string {
  const empty = isSet ? "empty keeps the one there is" : "empty leaves it out";
  return `${key}: ${plain(description)} (${isSet || !isNeeded ? empty : "needed"})`;
}

/** The descriptions are Markdown of one line. */
function plain(text: string): string {
  return text.replaceAll("`", "");
}
