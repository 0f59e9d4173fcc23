import type { GatewayEvents } from "../../generated/gateway/host.gen.ts";
import type { RpcPeer } from "./peer.ts";
import type { RpcRoom } from "./room.ts";

export const PROTOCOL = { name: "agent-tui-gateway", version: 1, min_version: 1 } as const;

/** The first event of a connection: what is spoken, by whom, and what it can do. */
export function readyEvent(room: RpcRoom, peer: RpcPeer): GatewayEvents["gateway.ready"] {
  return {
    type: "gateway.ready",
    ts: room.clock.now(),
    payload: {
      skin: {},
      protocol: PROTOCOL,
      server: { name: "agentd", version: room.version },
      connection_id: peer.id,
      replay_epoch: room.store.epoch,
      change_events: true,
      heartbeat: peer.transport === "ws",
      capabilities: {
        event_replay: true,
        resume_cursor: true,
        server_requests: true,
        client_turn_id: true,
        fanout: true,
        busy_modes: ["queue", "steer", "interrupt", "reject"],
        approvals_by_id: true,
        batch_clarify: false,
        voice: false,
        shell_exec: false,
      },
      limits: room.settings.limits,
    },
  };
}
