/** The models of the home's configuration, for commands that need no service. */
import type { Config } from "../../../generated/config/types.gen.ts";
import type { ModelCatalog } from "../../agent/model.ts";
import { createLog } from "../../base/observe/log.ts";
import { loadConfig, requireValid, type LoadedConfig } from "../../config/config.ts";
import type { ResolvedProvider } from "../../config/providers.ts";
import { hideSecrets } from "../../config/secrets/values.ts";
import { createCatalog, findProviders } from "../../app/models.ts";
import { currentContext } from "../kit/context.ts";

export interface ModelDeps {
  readonly loaded: LoadedConfig;
  readonly config: Config;
  readonly providers: readonly ResolvedProvider[];
  readonly models: ModelCatalog;
}

/** ServiceError `invalid_config`. */
export async function loadModels(): Promise<ModelDeps> {
  const loaded = await loadConfig(currentContext());
  const config = requireValid(loaded);
  hideSecrets(loaded);
  const providers = await findProviders(config, loaded.env, createLog("error"));
  return { loaded, config, providers, models: createCatalog(config, providers) };
}
