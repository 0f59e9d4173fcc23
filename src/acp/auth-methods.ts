/** The ways to make the agent ready that a client is told of. Pure. */
import type { AuthMethod } from "@agentclientprotocol/sdk/unstable";
import { acpClaims } from "../../generated/acp/claims.gen.ts";
import type { ClientOffers } from "./client-offers.ts";

/** The one in a terminal only for clients that can open one: others would offer what they cannot do. */
export function authMethodsFor({ terminalSetup }: ClientOffers): readonly AuthMethod[] {
  const { provider, setup } = acpClaims.authMethods;
  return terminalSetup === "no" ? [provider] : [provider, { ...setup, args: [...setup.args] }];
}
