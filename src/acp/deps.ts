import type { Agent } from "../agent/agent.ts";
import type { Commands } from "../agent/commands/command.ts";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/observe/log.ts";
import type { Store } from "../store/store.ts";
import type { Config } from "../../generated/config/types.gen.ts";

/** What the editor's side is built from. */
export interface AcpDeps {
  readonly store: Store;
  readonly agent: Agent;
  readonly commands: Commands;
  readonly clock: Clock;
  readonly log: Log;
  readonly settings: AcpSettings;
  /** Whose sessions the client sees. */
  readonly owner: string;
  /** Whether the configuration still says what the agent was loaded with. */
  isCurrent(): Promise<boolean>;
  /** Cuts what runs, ends what tools hold, and closes the store. */
  close(): Promise<void>;
}

/** The configuration's block `acp` in plain numbers with their units in the name. */
export interface AcpSettings {
  /** Files are read and written through a client that offers it. */
  readonly clientFiles: boolean;
  /** How long a turn may be silent; undefined: for ever. */
  readonly keepaliveMs: number | undefined;
  readonly mcp: ClientMcpSettings;
  /** Models are told in the way of older clients too. */
  readonly legacyModels: boolean;
  /** Where the sessions that a client lists were begun. */
  readonly listSources: readonly string[];
}

/** Of the MCP servers that clients name. */
export interface ClientMcpSettings {
  /** False: the agent has no tools of such servers. */
  readonly isOffered: boolean;
  /** Names that the configuration has given to its own. */
  readonly configuredNames: readonly string[];
  /** How long a new session waits for them. */
  readonly waitMs: number;
  readonly startTimeoutMs: number;
  /** Longest call. */
  readonly timeoutMs: number;
}

export function acpSettings({ acp, mcp, agent }: Config): AcpSettings {
  return {
    clientFiles: acp.client_files,
    keepaliveMs: acp.keepalive_seconds === 0 ? undefined : acp.keepalive_seconds * 1000,
    legacyModels: acp.legacy_models,
    listSources: acp.list_sources,
    mcp: {
      isOffered: agent.toolsets.includes("mcp"),
      configuredNames: Object.keys(mcp.servers),
      waitMs: acp.mcp_wait_seconds * 1000,
      startTimeoutMs: mcp.start_timeout_seconds * 1000,
      timeoutMs: acp.mcp_timeout_seconds * 1000,
    },
  };
}
