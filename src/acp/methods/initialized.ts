import type { InitializeRequest, InitializeResponse } from "@agentclientprotocol/sdk/unstable";
import { acpClaims } from "../../../generated/acp/claims.gen.ts";
import { authMethodsFor } from "./auth-methods.ts";
import { clientOffers } from "../wire/client-capabilities.ts";
import type { AcpConnection } from "../wire/connection.ts";

/** The answer of `initialize`, made from the claims. The only version spoken is answered whatever was asked for. */
export function initialized(
  { clientCapabilities }: InitializeRequest,
  connection: AcpConnection,
): InitializeResponse {
  connection.offers = clientOffers(clientCapabilities);
  const { protocolVersion, title, agentCapabilities, _meta } = acpClaims;
  return {
    protocolVersion,
    agentInfo: { name: title, title, version: connection.version },
    agentCapabilities,
    authMethods: authMethodsFor(connection),
    _meta,
  } as unknown as InitializeResponse;
}
