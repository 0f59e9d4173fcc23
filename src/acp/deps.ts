import type { Agent } from "../agent/agent.ts";
import type { Commands } from "../agent/agent.ts";
import type { Clock } from "../base/time.ts";
import type { Log } from "../base/observe.ts";
import type { Store } from "../store/store.ts";
import type { Config } from "../../generated/config/types.gen.ts";

/** The dependencies of an ACP connection. */
export interface AcpDeps {
  readonly store: Store;
  readonly agent: Agent;
  readonly commands: Commands;
  readonly clock: Clock;
  readonly log: Log;
  readonly settings: AcpSettings;
  /** The owner of the sessions that the client sees. */
  readonly owner: string;
  /** Why this configuration has no usable provider, beyond what the model catalog reports. */
  readonly providerProblem: string | undefined;
  /** Returns whether the configuration is the one that the agent was loaded with. */
  isCurrent(): Promise<boolean>;
  /** Cancels active runs, ends the processes of tools and closes the store. */
  close(): Promise<void>;
}

/** The `acp` section of the configuration, with times in milliseconds. */
export interface AcpSettings {
  /** Read and write files through the client if it supports that. */
  readonly clientFiles: boolean;
  /** The longest silence within a turn. Undefined: no limit. */
  readonly keepaliveMs: number | undefined;
  readonly mcp: ClientMcpSettings;
  /** Also report models in the format of older clients. */
  readonly legacyModels: boolean;
  /** The sources of the sessions that a client can list. */
  readonly listSources: readonly string[];
}

/** Settings of the MCP servers that clients name. */
export interface ClientMcpSettings {
  /** False: the agent gets no tools from these servers. */
  readonly isOffered: boolean;
  /** The names of the configured servers, which are taken. */
  readonly configuredNames: readonly string[];
  /** How long a new session waits for its servers. */
  readonly waitMs: number;
  readonly startTimeoutMs: number;
  /** The longest tool call. */
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
