/** Asks a person at the terminal how webhooks are to be received. Nothing is written here. */
import { toPort } from "../webhook/options.ts";

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
