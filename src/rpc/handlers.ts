import { gatewayRequests } from "../../generated/gateway/rpc.gen.ts";
import { ServiceError } from "../base/errors.ts";
import { defineRpc, type RpcHandlers } from "./contract.ts";
import { connectionMethods } from "./methods/connection.ts";
import { promptMethods } from "./methods/prompt.ts";
import { sessionEditMethods } from "./methods/session-edit.ts";
import { sessionLiveMethods } from "./methods/session-live.ts";
import { sessionMethods } from "./methods/session.ts";
import type { RpcContext } from "./room.ts";

/** Methods whose handlers are not there yet; goes when all are, and then a missing one is a compile error. */
const unbuilt = Object.fromEntries(
  Object.keys(gatewayRequests).map((method) => [
    method,
    () => {
      throw new ServiceError("unknown_method", `unknown method: ${method}`);
    },
  ]),
) as unknown as RpcHandlers<RpcContext>;

/** Every method of specs/gateway.openrpc.yaml, bound to its handler. */
export const rpcHandlers = defineRpc<RpcContext>({
  ...unbuilt,
  ...connectionMethods,
  ...promptMethods,
  ...sessionMethods,
  ...sessionLiveMethods,
  ...sessionEditMethods,
});
