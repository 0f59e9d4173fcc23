/** Delivery: the targets of a service, built from the configuration, and what follows when a message is settled. */
import type { Clock } from "../base/time.ts";
import { cronOutputFolder, webhookSecret, type Paths } from "./settings.ts";
import { createOutputTarget, closeSettledOccurrence } from "../cron/run/end.ts";
import { createPlatformTargets } from "../deliver/platform/platforms.ts";
import { createTargets, type Targets } from "../deliver/target.ts";
import { createAllTarget } from "../deliver/address.ts";
import { createLocalTarget, createLogTarget } from "../deliver/targets/local.ts";
import { createWebhookTarget } from "../deliver/targets/webhook.ts";
import type { Config } from "../../generated/config/types.gen.ts";
import type { Log } from "../base/observe.ts";
import type { Environment } from "../config/home.ts";
import type { Store } from "../store/store.ts";
import type { Tx } from "../store/tx/tx.ts";
import type { OutboxRow } from "../store/schema/tables.ts";
import { closeSettledDelivery } from "../webhook/deliveries/deliveries.ts";

interface TargetsOptions {
  readonly config: Config;
  readonly env: Environment;
  readonly version: string;
  readonly log: Log;
  readonly paths: Pick<Paths, "agentHome">;
}

/** Returns the targets that messages can be addressed to. */
export async function createServiceTargets(
  { config, env, version, log, paths: { agentHome } }: TargetsOptions,
  { store, clock }: { readonly store: Store; readonly clock: Clock },
): Promise<Targets> {
  const secret = webhookSecret(config, env);
  const webhook = createWebhookTarget({
    clock,
    version,
    allowedPrivateHosts: config.api_server.webhook_allowed_hosts,
    ...(secret === undefined ? {} : { secret }),
  });
  const local = createLocalTarget({ home: agentHome, clock, log });
  const output = createOutputTarget({
    folder: cronOutputFolder({ agentHome }),
    keep: config.cron.keep_outputs,
    hasJob: async (id) => (await store.find("cron_jobs", { id })) !== undefined,
  });
  const platforms = await createPlatformTargets(config, { clock, log, version, agentHome, env, store });
  return createTargets([createLogTarget(log), local, output, webhook, createAllTarget(), ...platforms]);
}

/** Updates, in `tx`, the webhook delivery or scheduled run that enqueued a message which is now sent or given up. */
export async function onMessageSettled(tx: Tx, { ref }: Pick<OutboxRow, "ref">): Promise<void> {
  if (ref?.startsWith("dlv_")) await closeSettledDelivery(tx, { ref });
  else await closeSettledOccurrence(tx, { ref });
}
