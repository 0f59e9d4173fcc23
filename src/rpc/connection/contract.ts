/** What a handler is given and may answer, read off the generated requests. Types, and the functions that bind them. */
import type { GatewayMethod, GatewayRequests } from "../../../generated/gateway/rpc.gen.ts";

/** `Ctx` is what the binding knows besides: the room and the connection. */
export interface RpcCall<K extends GatewayMethod, Ctx> {
  /** Checked, defaults filled in. Parameters that nobody declared are not in it. */
  readonly params: GatewayRequests[K]["params"];
  readonly ctx: Ctx;
  /** Aborts when the connection ends. */
  readonly signal: AbortSignal;
  /**
   * Holds the session's events back on this connection until this call was answered: the answer to `prompt.submit`
   * leaves before `message.start`, and the answer to `session.resume` before what is replayed.
   */
  hold(sessionId: string): void;
}

/** Only what the spec lists for the method. Errors are thrown, as ServiceError. */
export type RpcHandler<K extends GatewayMethod, Ctx> = (
  call: RpcCall<K, Ctx>,
) => GatewayRequests[K]["result"] | Promise<GatewayRequests[K]["result"]>;

/** One handler for every method of the spec. */
export type RpcHandlers<Ctx> = { readonly [K in GatewayMethod]: RpcHandler<K, Ctx> };

/** The handlers of some methods, as a file of methods/ exports them. */
export type RpcGroup<K extends GatewayMethod, Ctx> = Pick<RpcHandlers<Ctx>, K>;

/** Returns `handlers` unchanged; a missing method or a result that the spec does not list is a compile error. */
export function defineRpc<Ctx>(handlers: RpcHandlers<Ctx>): RpcHandlers<Ctx> {
  return handlers;
}
