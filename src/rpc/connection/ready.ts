import type { GatewayEvents } from "../../../generated/gateway/host.gen.ts";
import type { GatewayLimits, ServerCapabilities } from "../../../generated/gateway/types/types.gen.ts";

export const PROTOCOL = { name: "agent-tui-gateway", version: 1, min_version: 1 } as const;

/** What the first frame needs. It is known once the journal is open, before the modules are built. */
export interface Greeting {
  readonly connectionId: string;
  readonly transport: "stdio" | "ws";
  /** Version of agentd. */
  readonly version: string;
  /** See Store. */
  readonly epoch: string;
  readonly limits: GatewayLimits;
  /** Whether this connection may call `shell.exec`. */
  readonly shellExec: boolean;
  readonly nowMs: number;
}

/** Returns the first event of a connection: protocol, server, capabilities and limits. */
export function readyEvent(greeting: Greeting): GatewayEvents["gateway.ready"] {
  return {
    type: "gateway.ready",
    ts: greeting.nowMs,
    payload: {
      skin: {},
      ...describeServer(greeting),
      connection_id: greeting.connectionId,
      replay_epoch: greeting.epoch,
      change_events: true,
      heartbeat: greeting.transport === "ws",
    },
  };
}

/** Returns what the server is and supports. */
export function describeServer({
  version,
  limits,
  shellExec,
}: Pick<Greeting, "version" | "limits" | "shellExec">) {
  return {
    protocol: PROTOCOL,
    server: { name: "agentd", version },
    capabilities: {
      event_replay: true,
      resume_cursor: true,
      server_requests: true,
      client_turn_id: true,
      fanout: true,
      busy_modes: ["queue", "steer", "interrupt", "reject"] as BusyModes,
      approvals_by_id: true,
      batch_clarify: false,
      voice: false,
      shell_exec: shellExec,
    },
    limits,
  };
}

/** Returns whether a connection may use what `setting` limits to some hosts. */
export function isOpenTo(setting: "local" | "all" | "off", peer: { readonly isLocal: boolean }): boolean {
  return setting === "all" || (setting === "local" && peer.isLocal);
}

type BusyModes = ServerCapabilities["busy_modes"];

/** The limits of a connection, as `gateway.ready` reports them. Bytes are UTF-8 bytes. */
export const RPC_LIMITS: GatewayLimits = {
  max_frame_bytes: 16 * 1_048_576,
  max_inflight_requests: 256,
  max_batch: 32,
  max_outbox_frames: 8_192,
  max_outbox_bytes: 16 * 1_048_576,
  max_queue_per_session: 32,
  max_replay_events: 512,
  max_replay_bytes: 4 * 1_048_576,
};

/** Returns the limits with the configured ones. `maxQueue` is sessions.max_queue. */
export function gatewayLimits(maxQueue: number): GatewayLimits {
  return { ...RPC_LIMITS, max_queue_per_session: maxQueue };
}
