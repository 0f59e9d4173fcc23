/** The receiver of webhooks of a service. */
import type { WiredAgent } from "./wire-agent.ts";
import type { Targets } from "../deliver/target.ts";
import type { WebhookReceiver } from "../gateway/webhook-receiver.ts";
import type { Config } from "../../generated/config/types.gen.ts";
import type { Environment } from "../config/home.ts";
import type { Paths } from "./settings.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";

/**
 * The receiver of webhooks, which does not listen yet. Undefined when it is not enabled. ServiceError `invalid_config` for
 * routes that cannot be used, before anybody can connect to anything.
 */
export async function createReceiver(
  options: { readonly config: Config; readonly env: Environment; readonly paths: Paths },
  {
    wiredAgent,
    targets,
    telemetry,
  }: { readonly wiredAgent: WiredAgent; readonly targets: Targets; readonly telemetry: Telemetry },
): Promise<WebhookReceiver | undefined> {
  if (!options.config.platforms.webhook.enabled) return undefined;
  const [{ wireWebhook }, { createWebhookApp }, { WebhookReceiver }] = await Promise.all([
    import("./wire-webhook.ts"),
    import("../webhook/receive/app.ts"),
    import("../gateway/webhook-receiver.ts"),
  ]);
  const opened = wireWebhook(options, { ...wiredAgent, targets, metrics: telemetry.webhook });
  await opened?.deps.routes.warnOfPlatforms();
  return opened && new WebhookReceiver({ ...opened, app: createWebhookApp(opened.deps) });
}
