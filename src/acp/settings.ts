import type { AcpConfig } from "../../generated/config/types.gen.ts";

/** The configuration's block `acp` in plain numbers with their units in the name. */
export interface AcpSettings {
  /** Files are read and written through a client that offers it. */
  readonly clientFiles: boolean;
  /** How long a turn may be silent; undefined: for ever. */
  readonly keepaliveMs: number | undefined;
  /** How long a new session waits for the servers that its client names. */
  readonly mcpWaitMs: number;
  /** Models are told in the way of older clients too. */
  readonly legacyModels: boolean;
  /** Where the sessions that a client lists were begun. */
  readonly listSources: readonly string[];
}

export function acpSettings(config: AcpConfig): AcpSettings {
  return {
    clientFiles: config.client_files,
    keepaliveMs: config.keepalive_seconds === 0 ? undefined : config.keepalive_seconds * 1000,
    mcpWaitMs: config.mcp_wait_seconds * 1000,
    legacyModels: config.legacy_models,
    listSources: config.list_sources,
  };
}
