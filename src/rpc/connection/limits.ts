import type { GatewayLimits } from "../../../generated/gateway/types/types.gen.ts";

/** The bounds of a connection, as `gateway.ready` tells them. Bytes are bytes of UTF-8. */
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

/** As the configuration has them: `maxQueue` is sessions.max_queue. */
export function gatewayLimits(maxQueue: number): GatewayLimits {
  return { ...RPC_LIMITS, max_queue_per_session: maxQueue };
}
