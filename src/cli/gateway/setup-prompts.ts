/** Asks a person at the terminal how webhooks are to be received. Nothing is written here. */
import { toPort } from "../kit/options.ts";
import type { Environment } from "../../config/home.ts";
import { platformKeys, type PlatformKey, type PlatformName } from "../../config/platform-settings.ts";
import { missingSettings } from "../../deliver/platform/platforms.ts";
import type { PlatformAnswers } from "./setup-platform.ts";
import type { PlatformStatus } from "../platforms/status.ts";

export interface GatewayAnswers {
  /** Undefined keeps the port there is. */
  readonly port: number | undefined;
  /** Undefined keeps the secret there is. */
  readonly secret: string | undefined;
}

export interface GatewayDefaults {
  readonly isEnabled: boolean;
  readonly port: number;
  readonly hasSecret: boolean;
}

/** "no" when webhooks stay as they are; undefined when the person broke off. */
export async function askGateway({
  isEnabled,
  port,
  hasSecret,
}: GatewayDefaults): Promise<GatewayAnswers | "no" | undefined> {
  const ask = await import("@clack/prompts");
  ask.intro("agentd gateway setup");
  const wanted = await ask.confirm({
    message: isEnabled ? "Webhooks are enabled. Reconfigure webhooks?" : "Receive webhooks?",
    initialValue: !isEnabled,
  });
  if (wanted !== true) return ask.isCancel(wanted) ? undefined : "no";
  ask.log.warn(
    "The receiver opens a port for strangers. Let only the services through that are to reach it, put TLS before it, and use secrets that cannot be guessed.",
  );
  const typed = await ask.text({ message: `Webhook port (default ${port})`, placeholder: String(port) });
  if (ask.isCancel(typed)) return undefined;
  const chosen = typed ? toPort(typed) : undefined;
  if (typed && chosen === undefined) ask.log.warn(`That is no port from 1 to 65535; it stays ${port}.`);
  const secret = await ask.password({
    message: `Global HMAC secret (shared across all routes)${hasSecret ? "; empty keeps the one there is" : ""}`,
  });
  if (ask.isCancel(secret)) return undefined;
  if (!secret && !hasSecret) ask.log.warn("Without it, each route needs a secret of its own.");
  return { port: chosen, secret: secret || undefined };
}

/** Undefined when the person broke off. */
export async function askYesNo(message: string): Promise<boolean | undefined> {
  const ask = await import("@clack/prompts");
  const answer = await ask.confirm({ message, initialValue: false });
  return ask.isCancel(answer) ? undefined : answer;
}

/** Undefined when the person broke off, or names none. */
export async function askChat(title: string): Promise<string | undefined> {
  const ask = await import("@clack/prompts");
  const chat = await ask.text({
    message: `Which chat of ${title}? (${title} has no home channel; empty sends nothing)`,
  });
  return ask.isCancel(chat) ? undefined : chat?.trim() || undefined;
}

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
