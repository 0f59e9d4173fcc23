/** The settings of the receiver, with their defaults. Pure. */
import type { Config, WebhookReceiverConfig } from "../../generated/config/types.gen.ts";

export interface WebhookSettings {
  readonly isEnabled: boolean;
  readonly host: string;
  readonly port: number;
  readonly isLoopback: boolean;
  /** As configured: references are not resolved. */
  readonly secrets: readonly string[];
  /** Requests per minute and route. */
  readonly rateLimit: number;
  readonly maxBodyBytes: number;
  readonly scriptTimeoutMs: number;
  readonly routes: NonNullable<WebhookReceiverConfig["routes"]>;
}

const LOOPBACK = new Set(["127.0.0.1", "localhost", "::1", "[::1]", "ip6-localhost", "ip6-loopback"]);

/** Returns the settings of `platforms.webhook`. Keys under `extra` override the keys beside it. */
export function webhookSettings({ platforms }: Pick<Config, "platforms">): WebhookSettings {
  const { enabled, extra, ...beside } = platforms.webhook;
  const all: WebhookReceiverConfig = { ...beside, ...extra };
  const host = all.host?.trim() ?? "0.0.0.0";
  return {
    isEnabled: enabled,
    host,
    port: all.port ?? 8644,
    isLoopback: LOOPBACK.has(host.toLowerCase()),
    secrets: [...(all.secret ? [all.secret] : []), ...(all.secrets ?? [])],
    rateLimit: all.rate_limit ?? 30,
    maxBodyBytes: all.max_body_bytes ?? 1_048_576,
    scriptTimeoutMs: (all.script_timeout_seconds ?? 30) * 1000,
    routes: { ...beside.routes, ...extra.routes },
  };
}
