import { ServiceError } from "../../base/errors.ts";
import type { RpcIdentity } from "./peer.ts";

/** Whether whoever is at the other end may do what the scope stands for. */
export function hasScope({ scopes }: RpcIdentity, scope: string): boolean {
  return scopes.includes(scope) || scopes.includes("admin");
}

/** ServiceError `insufficient_scope`; `what` names that which needs the scope. */
export function requireScope(identity: RpcIdentity, scope: string, what: string): void {
  if (hasScope(identity, scope)) return;
  throw new ServiceError(
    "insufficient_scope",
    `The key ${JSON.stringify(identity.owner)} has no scope ${JSON.stringify(scope)}, which ${what} needs. Add it in api_server.keys.`,
  );
}
