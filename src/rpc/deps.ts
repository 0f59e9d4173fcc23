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
import type { GatewayMethod, GatewayRequests } from "../../generated/gateway/rpc.gen.ts";

/** Dependencies of the gateway. */
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
  /** Version of agentd. */
  readonly version: string;
  readonly settings: RpcSettings;
  /** Absent: keys have no limits. */
  readonly keyLimits?: KeyLimits;
  readonly config: ConfigAccess;
  readonly reload: Reload;
  /** All connections, for events that concern every client. */
  readonly peers: Iterable<RpcPeer>;
  /** Creates the subscriptions of a connection. */
  readonly subscribe: (deps: RpcDeps, peer: RpcPeer) => Subscriptions;
}

export interface RpcSettings {
  readonly limits: GatewayLimits;
  /** Who may call `cli.exec`: local connections, all with the scope, or no connection. */
  readonly cliExec: "local" | "all" | "off";
}

/** The configuration at the start of the process, and where to read the current file. */
export interface ConfigAccess {
  /** Complete, with defaults. */
  readonly atStart: Config;
  /** The home folder, for src/config/*. */
  readonly home: string;
  /** The environment of the process, without the home's `.env` file. */
  readonly env: Environment;
  /** The user's own home folder. */
  readonly userHome: string;
}

/** What the process can reload. */
export interface Reload {
  /** Reloads the `.env` file. Resolves to the number of changed variables. */
  env(): Promise<number>;
  /** Reloads the MCP configuration. Resolves to one line per server. */
  mcp(): Promise<readonly string[]>;
}

/** What every handler gets besides its parameters. */
export interface RpcContext {
  readonly deps: RpcDeps;
  readonly peer: RpcPeer;
}

/** `Ctx` is what the binding adds: dependencies and connection. */
export interface RpcCall<K extends GatewayMethod, Ctx> {
  /** Validated, with defaults, without undeclared parameters. */
  readonly params: GatewayRequests[K]["params"];
  readonly ctx: Ctx;
  /** Aborts when the connection ends. */
  readonly signal: AbortSignal;
  /**
   * Holds back the session's events on this connection until this call is answered: the answer to `prompt.submit`
   * precedes `message.start`, and the answer to `session.resume` precedes the replay.
   */
  hold(sessionId: string): void;
}

/** Returns a result that the spec lists. Errors are thrown as ServiceError. */
export type RpcHandler<K extends GatewayMethod, Ctx> = (
  call: RpcCall<K, Ctx>,
) => GatewayRequests[K]["result"] | Promise<GatewayRequests[K]["result"]>;

/** One handler for each method of the spec. */
export type RpcHandlers<Ctx> = { readonly [K in GatewayMethod]: RpcHandler<K, Ctx> };

/** The handlers of some methods: what a file of methods/ exports. */
export type RpcGroup<K extends GatewayMethod, Ctx> = Pick<RpcHandlers<Ctx>, K>;

/** Returns `handlers` unchanged. A missing method, or a result that the spec does not list, is a compile error. */
export function defineRpc<Ctx>(handlers: RpcHandlers<Ctx>): RpcHandlers<Ctx> {
  return handlers;
}
