import type { Config } from "../../generated/config/types.gen.ts";
import type { Agent } from "../agent/agent.ts";
import type { Commands } from "../agent/commands/command.ts";
import type { KeyLimits } from "../agent/run/concurrency.ts";
import type { McpServers } from "../agent/mcp/servers.ts";
import type { Skills } from "../agent/skills/skills.ts";
import type { SpawnTrees } from "../agent/subagent/spawn-tree.ts";
import type { Processes } from "../agent/tools/process/processes.ts";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/observe/log.ts";
import type { Environment } from "../config/home.ts";
import type { Store } from "../store/store.ts";
import type { GatewayLimits } from "../../generated/gateway/types/types.gen.ts";
import type { RpcPeer, Subscriptions } from "./connection/peer.ts";

/** What the gateway is built from. */
export interface RpcDeps {
  readonly store: Store;
  readonly agent: Agent;
  readonly commands: Commands;
  readonly processes: Processes;
  readonly skills: Skills;
  readonly mcp: McpServers;
  readonly spawnTrees: SpawnTrees;
  readonly clock: Clock;
  readonly log: Log;
  /** Of agentd. */
  readonly version: string;
  readonly settings: RpcSettings;
  /** Absent: no key is limited. */
  readonly keyLimits?: KeyLimits;
  readonly config: ConfigAccess;
  readonly reload: Reload;
  /** All connections there are, for what concerns everybody. */
  readonly peers: Iterable<RpcPeer>;
  /** Made for each connection. */
  readonly subscribe: (deps: RpcDeps, peer: RpcPeer) => Subscriptions;
}

export interface RpcSettings {
  readonly limits: GatewayLimits;
  /** Whether `cli.exec` works: for local connections, for all with the scope, or for none. */
  readonly cliExec: "local" | "all" | "off";
}

/** The configuration: as the process began with it, and the file as it is now. */
export interface ConfigAccess {
  /** Complete. */
  readonly atStart: Config;
  /** The home folder, for src/config/*. */
  readonly home: string;
  /** The environment of the process, without the home's `.env` file. */
  readonly env: Environment;
  /** The user's own home folder. */
  readonly userHome: string;
}

/** What can be read again while the process runs. */
export interface Reload {
  /** The `.env` file. Resolves to how many variables changed. */
  env(): Promise<number>;
  /** The configuration of MCP servers. Resolves to a line for each server. */
  mcp(): Promise<readonly string[]>;
}

/** What every handler knows besides its parameters. */
export interface RpcContext {
  readonly deps: RpcDeps;
  readonly peer: RpcPeer;
}
