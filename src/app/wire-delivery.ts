/** The targets of a service, built from the configuration. */
import type { Clock } from "../base/clock.ts";
import { cronOutputFolder } from "./wire-cron.ts";
import { createOutputTarget } from "../cron/output/outputs.ts";
import { createPlatformTargets } from "../deliver/platform/platforms.ts";
import { createTargets, type Targets } from "../deliver/target.ts";
import { createAllTarget } from "../deliver/address.ts";
import { createLocalTarget, createLogTarget } from "../deliver/targets/local.ts";
import { createWebhookTarget } from "../deliver/targets/webhook.ts";
import type { Config } from "../../generated/config/types.gen.ts";
import type { Log } from "../base/observe/log.ts";
import type { Environment } from "../config/home.ts";
import { webhookSecret, type Paths } from "./settings.ts";
import type { Store } from "../store/store.ts";

export interface TargetsOptions {
  readonly config: Config;
  readonly env: Environment;
  readonly version: string;
  readonly log: Log;
  readonly paths: Pick<Paths, "agentHome">;
}

export async function openTargets(
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
