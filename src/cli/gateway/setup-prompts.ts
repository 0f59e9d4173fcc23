/** The questions of `agentd gateway setup`. Writes nothing. */
import { toPort } from "../kit/options.ts";
import type { Environment } from "../../config/home.ts";
import { platformKeys, type PlatformKey, type PlatformName } from "../../config/platform-settings.ts";
import { missingSettings } from "../../deliver/platform/platforms.ts";
import type { PlatformAnswers } from "./setup-platform.ts";
import type { PlatformStatus } from "../../deliver/platform/status.ts";

export interface GatewayAnswers {
  /** Undefined keeps the current port. */
  readonly port: number | undefined;
  /** Undefined keeps the current secret. */
  readonly secret: string | undefined;
}

interface GatewayDefaults {
  readonly isEnabled: boolean;
  readonly port: number;
  readonly hasSecret: boolean;
}

/** Returns "no" to leave webhooks unchanged, or undefined if the user cancels. */
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
    "The receiver opens a public port. Allow only the services that need it, put TLS in front of it, and use strong secrets.",
  );
  const typed = await ask.text({ message: `Webhook port (default ${port})`, placeholder: String(port) });
  if (ask.isCancel(typed)) return undefined;
  const chosen = typed ? toPort(typed) : undefined;
  if (typed && chosen === undefined) ask.log.warn(`Not a port from 1 to 65535. Keeping ${port}.`);
  const secret = await ask.password({
    message: `Global HMAC secret (shared across all routes)${hasSecret ? "; leave empty to keep the current one" : ""}`,
  });
  if (ask.isCancel(secret)) return undefined;
  if (!secret && !hasSecret) ask.log.warn("Without a global secret, each route needs its own.");
  return { port: chosen, secret: secret || undefined };
}

/** Returns undefined if the user cancels. */
export async function askYesNo(message: string): Promise<boolean | undefined> {
  const ask = await import("@clack/prompts");
  const answer = await ask.confirm({ message, initialValue: false });
  return ask.isCancel(answer) ? undefined : answer;
}

/** Returns undefined if the user cancels or enters nothing. */
export async function askChat(title: string): Promise<string | undefined> {
  const ask = await import("@clack/prompts");
  const chat = await ask.text({
    message: `Which ${title} chat? (no home channel is set; leave empty to send nothing)`,
  });
  return ask.isCancel(chat) ? undefined : chat?.trim() || undefined;
}

const MARKS: Readonly<Record<PlatformStatus["status"], string>> = {
  ready: "ready",
  incomplete: "incomplete",
  unset: "",
  off: "disabled",
};

/** Asks for a platform and its keys. Returns undefined if the user cancels. */
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
  const status = statuses.find(({ name }) => name === platform);
  const values = new Map<string, string>();
  const needed = await neededKeys(platform, status);
  const asked = platformKeys(platform).filter(
    ({ key, variables }) => variables.length > 0 || needed.has(key),
  );
  for (const key of asked) {
    if (key.key === "home_thread" && !values.has("home_channel")) continue;
    const isSet = status?.keys.includes(key.key) === true;
    const message = messageOf(key, { isSet, isNeeded: needed.has(key.key) });
    const typed = key.isSecret ? await ask.password({ message }) : await ask.text({ message });
    if (ask.isCancel(typed)) return undefined;
    if (typed?.trim()) values.set(key.key, typed.trim());
    const override = key.isSecret ? key.variables.find((name) => env[name]) : undefined;
    if (typed?.trim() && override !== undefined) {
      ask.log.warn(`${override} in the environment overrides <home>/.env.`);
    }
  }
  return { platform, values };
}

/** Returns the required keys of the platform. */
async function neededKeys(
  platform: PlatformName,
  status: PlatformStatus | undefined,
): Promise<ReadonlySet<string>> {
  const clauses = [...(await missingSettings(platform, {})), ...(status?.missing ?? [])].join(" ");
  return new Set(clauses.match(/[a-z][a-z0-9_]*/g));
}

function messageOf(
  { key, description }: PlatformKey,
  { isSet, isNeeded }: { readonly isSet: boolean; readonly isNeeded: boolean },
): string {
  const empty = isSet ? "leave empty to keep the current value" : "optional";
  return `${key}: ${plain(description)} (${isSet || !isNeeded ? empty : "required"})`;
}

/** Removes the Markdown of a one-line description. */
function plain(text: string): string {
  return text.replaceAll("`", "");
}
