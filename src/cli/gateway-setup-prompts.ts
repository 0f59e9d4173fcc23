/** Asks a person at the terminal how webhooks are to be received. Nothing is written here. */
import { toPort } from "./webhook-options.ts";

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

/** Undefined when the person broke off, or wants nothing changed. */
export async function askGateway({
  isEnabled,
  port,
  hasSecret,
}: GatewayDefaults): Promise<GatewayAnswers | undefined> {
  const ask = await import("@clack/prompts");
  ask.intro("agentd gateway setup");
  const wanted = await ask.confirm({
    message: isEnabled ? "Webhooks are enabled. Reconfigure webhooks?" : "Receive webhooks?",
    initialValue: !isEnabled,
  });
  if (wanted !== true) return undefined;
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
