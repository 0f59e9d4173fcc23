/** A gateway as a child process of this one, in Node and Deno. Touches the machine. */
import type { GatewayTransport } from "./gateway-transport.ts";

export interface SpawnTransportOptions {
  /** The program, such as `agentd`. */
  readonly command: string;
  /** Default: `["rpc"]`. */
  readonly args?: readonly string[];
  /** The whole environment of the process; default: that of this one. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Gets what the process writes to standard error, a line each; without it the lines are dropped. */
  readonly onStderr?: (line: string) => void;
}

/** Each connection is a process of its own: one that died is started again. */
export declare function spawnTransport(options: SpawnTransportOptions): GatewayTransport;
